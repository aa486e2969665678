// Writes vectors of the ring of the Collector's `loadbalancing` exporter, whose `consistent_hashing.go` is beside this
// file as part of `package main`.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"sort"
	"strings"
)

type section struct {
	name      string
	endpoints []string
}

func numbered(prefix string, n int) section {
	s := section{name: fmt.Sprintf("%s 0..%d", prefix, n)}
	for i := range n {
		s.endpoints = append(s.endpoints, fmt.Sprintf("%s%d", prefix, i))
	}
	return s
}

func listed(endpoints ...string) section {
	return section{strings.Join(endpoints, " "), endpoints}
}

func main() {
	sections := []section{
		listed("only"),
		listed("endpoint-1", "endpoint-2"),
		listed("10.0.0.1:4317", "10.0.0.2:4317", "10.0.0.3:4317"),
		listed("gateway-2.tier:4317", "gateway-0.tier:4317", "gateway-1.tier:4317", "gateway-10.tier:4317"),
		listed("[fd00::1]:4317", "10.0.0.9:4317", "b", "b"),
		numbered("10.1.0.", 60),
		// So many that most points collide, and some find no place.
		numbered("node-", 640),
	}
	for _, s := range sections {
		sort.Strings(s.endpoints)
		ring := newHashRing(s.endpoints)
		sum := crc32.NewIEEE()
		for _, item := range ring.items {
			fmt.Fprintf(sum, "%d %s\n", item.pos, item.endpoint)
		}
		fmt.Printf("ring %s\n", s.name)
		fmt.Printf("points %d %08x\n", len(ring.items), sum.Sum32())
		for i := range 40 {
			id := sha256.Sum256(fmt.Appendf(nil, "trace %d", i))
			fmt.Printf("%s %s\n", hex.EncodeToString(id[:16]), ring.endpointFor(id[:16]))
		}
	}
}
