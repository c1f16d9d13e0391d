// The real bbolt for tests/interop: makes files, reads them, checks them, compacts them.
//
//	bolt random SEED FILE           a random tree of buckets, of a random page size and kind of free list
//	bolt narad TOPICS PARTS FILE    what Narad's fsm.db would hold of so many topics with PARTS partitions each
//	bolt dump FILE                  every bucket and record, one line each, keys and values as hashes or hex
//	bolt check FILE                 bbolt's own check
//	bolt compact FROM TO            bbolt's own compaction; prints the seconds it took
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"math/rand"
	"os"
	"strconv"
	"time"

	bolt "go.etcd.io/bbolt"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bolt:", err)
		os.Exit(1)
	}
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	must(err)
	return n
}

// ---- random trees ----

func bytesOf(r *rand.Rand, max int) []byte {
	b := make([]byte, r.Intn(max)+1)
	r.Read(b)
	return b
}

func valueOf(r *rand.Rand) []byte {
	switch r.Intn(40) {
	case 0:
		return bytesOf(r, 100000) // overflow pages
	case 1, 2:
		return bytesOf(r, 6000)
	case 3:
		return []byte{}
	}
	return bytesOf(r, 120)
}

func fill(r *rand.Rand, b *bolt.Bucket, depth int) {
	must(b.SetSequence(uint64(r.Int63())))
	n := []int{0, 3, 20, 300, 2000}[r.Intn(5)]
	for i := 0; i < n; i++ {
		key := bytesOf(r, 40)
		if r.Intn(200) == 0 {
			key = bytesOf(r, 3000)
		}
		if b.Bucket(key) == nil {
			must(b.Put(key, valueOf(r)))
		}
	}
	for i := 0; depth < 4 && i < r.Intn(4); i++ {
		key := append([]byte("bucket-"), bytesOf(r, 10)...)
		if b.Get(key) == nil {
			c, err := b.CreateBucketIfNotExists(key)
			must(err)
			fill(r, c, depth+1)
		}
	}
}

func thin(r *rand.Rand, b *bolt.Bucket) {
	c := b.Cursor()
	var gone [][]byte
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if v != nil && r.Intn(3) == 0 {
			gone = append(gone, append([]byte(nil), k...))
		}
	}
	for _, k := range gone {
		must(b.Delete(k))
	}
}

func random(seed int, path string) {
	r := rand.New(rand.NewSource(int64(seed)))
	o := &bolt.Options{PageSize: 1024 << r.Intn(5), NoSync: true, NoFreelistSync: r.Intn(3) == 0,
		FreelistType: bolt.FreelistArrayType}
	if r.Intn(2) == 0 {
		o.FreelistType = bolt.FreelistMapType
	}
	os.Remove(path)
	db, err := bolt.Open(path, 0600, o)
	must(err)
	for i := r.Intn(4); i >= 0; i-- {
		must(db.Update(func(tx *bolt.Tx) error {
			for n := r.Intn(4); n >= 0; n-- {
				b, err := tx.CreateBucketIfNotExists([]byte(fmt.Sprint("top", r.Intn(6))))
				must(err)
				fill(r, b, 0)
			}
			return nil
		}))
		must(db.Update(func(tx *bolt.Tx) error {
			return tx.ForEach(func(_ []byte, b *bolt.Bucket) error { thin(r, b); return nil })
		}))
	}
	must(db.Close())
}

// ---- Narad's file ----

func narad(topics, parts int, path string) {
	os.Remove(path)
	db, err := bolt.Open(path, 0600, &bolt.Options{NoSync: true, FreelistType: bolt.FreelistMapType})
	must(err)
	names := []string{"topics", "schemas", "assignments", "members", "users", "removed_members", "remotes", "fsm_meta"}
	for from := 0; from < topics || from == 0; from += 5000 {
		must(db.Update(func(tx *bolt.Tx) error {
			b := map[string]*bolt.Bucket{}
			for _, n := range names {
				b[n], err = tx.CreateBucketIfNotExists([]byte(n))
				must(err)
				b[n].FillPercent = 0.9
			}
			put := func(bucket, key, value string) { must(b[bucket].Put([]byte(key), []byte(value))) }
			if from == 0 {
				for i := 1; i <= 5; i++ {
					id := fmt.Sprint("n", i)
					put("members", id, fmt.Sprintf(`{"id":"%s","addr":"%s.example:7942","cluster_addr":"%s.example:7943",`+
						`"status":"alive","last_heartbeat":1790000000,"build":"3.2.0","entry_types":%d}`, id, id, id, 32+5*(i&1)))
				}
				put("removed_members", "n9", `{"removed_at":1789000000}`)
				put("users", "admin", `{"username":"admin","password_hash":"JDJhJDEwJHh4","root":true,"created_at_ms":1}`)
				put("users", "ann", `{"username":"ann","password_hash":"JDJhJDEwJHh4","grants":[{"action":"produce",`+
					`"patterns":["a*"]}],"created_at_ms":2,"updated_at_ms":3}`)
			}
			for i := from; i < from+5000 && i < topics; i++ {
				name := fmt.Sprintf("topic-%07d.events", i)
				put("topics", name, fmt.Sprintf(`{"name":"%s","id":"%016x","partitions":%d,"retention_ms":604800000,`+
					`"visibility_timeout_ms":30000,"max_in_flight_per_partition":1024,"max_acked_ahead_per_partition":1024,`+
					`"created_at":1780000000,"owner":"ann"}`, name, i+1, parts))
				for p := 0; p < parts; p++ {
					put("assignments", fmt.Sprintf("%s:%d", name, p), fmt.Sprintf(
						`{"topic":"%s","partition":%d,"owner_id":"n%d"}`, name, p, (i+p)%5+1))
				}
				if i%100 == 0 {
					put("schemas", name+":1", `{"type":"object"}`)
				}
			}
			var id, index, max [8]byte
			binary.BigEndian.PutUint64(id[:], uint64(tx.ID()))
			binary.BigEndian.PutUint64(index[:], uint64(topics*(parts+1)+10))
			binary.BigEndian.PutUint64(max[:], 37)
			put("fsm_meta", "applied", string(index[:]))
			put("fsm_meta", "txid", string(id[:]))
			put("fsm_meta", "max_entry_type", string(max[:]))
			return nil
		}))
	}
	must(db.Close())
}

// ---- looking ----

func shown(b []byte) string {
	if len(b) <= 32 {
		return hex.EncodeToString(b)
	}
	h := fnv.New64a()
	h.Write(b)
	return fmt.Sprintf("%d:%016x", len(b), h.Sum64())
}

func dump(w *bufio.Writer, b *bolt.Bucket, depth int) {
	must(b.ForEach(func(k, v []byte) error {
		if v != nil {
			fmt.Fprintf(w, "%d %s = %s\n", depth, shown(k), shown(v))
			return nil
		}
		c := b.Bucket(k)
		fmt.Fprintf(w, "%d %s { %d\n", depth, shown(k), c.Sequence())
		dump(w, c, depth+1)
		fmt.Fprintf(w, "%d }\n", depth)
		return nil
	}))
}

func open(path string) *bolt.DB {
	db, err := bolt.Open(path, 0600, &bolt.Options{ReadOnly: true})
	must(err)
	return db
}

func main() {
	a := append(os.Args[1:], "", "", "", "")
	switch a[0] {
	case "random":
		random(number(a[1]), a[2])
	case "narad":
		narad(number(a[1]), number(a[2]), a[3])
	case "dump":
		db := open(a[1])
		w := bufio.NewWriter(os.Stdout)
		must(db.View(func(tx *bolt.Tx) error {
			return tx.ForEach(func(k []byte, b *bolt.Bucket) error {
				fmt.Fprintf(w, "0 %s { %d\n", shown(k), b.Sequence())
				dump(w, b, 1)
				fmt.Fprintf(w, "0 }\n")
				return nil
			})
		}))
		must(w.Flush())
	case "check":
		// For writing: only then has bbolt a free list to check against.
		db, err := bolt.Open(a[1], 0600, &bolt.Options{NoSync: true})
		must(err)
		must(db.View(func(tx *bolt.Tx) error {
			for err := range tx.Check() {
				fmt.Fprintln(os.Stderr, "bolt: check:", err)
				defer os.Exit(1)
			}
			return nil
		}))
		must(db.Close())
	case "compact":
		os.Remove(a[2])
		src := open(a[1])
		dst, err := bolt.Open(a[2], 0600, nil)
		must(err)
		start := time.Now()
		must(bolt.Compact(dst, src, 65536))
		must(dst.Close())
		fmt.Printf("%.2f\n", time.Since(start).Seconds())
	default:
		fmt.Fprintln(os.Stderr, "bolt: what?")
		os.Exit(2)
	}
}
