/* base/fault.h - deliberate faults: compiled only into the simulator, switched on at run time by name.
 *
 *   if (SIM_FAULT("commit-older-term")) { ... break the rule ... }
 *
 * In every other build SIM_FAULT is the constant false and the branch is gone.
 */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include <stdbool.h>

#ifdef VEENA_SIM
bool sim_fault(const char *name); /* tests/sim: is this fault switched on in this run? */
#define SIM_FAULT(name) sim_fault(name)
#else
#define SIM_FAULT(name) false
#endif

#endif /* BASE_FAULT_H */
