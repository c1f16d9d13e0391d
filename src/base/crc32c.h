/* base/crc32c.h - CRC-32C (Castagnoli), with the CPU's instruction where it has one.
 *
 * crc32c(crc32c(0, a), b) equals crc32c(0, ab). Thread: any.
 */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(uint32_t crc, const void *bytes, size_t len);

#endif /* BASE_CRC32C_H */
