package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/fs"
	"github.com/opencontainers/cgroups/fs2"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/rawsys"
)

// period is the length of the CPU controller's periods in µs, the kernel's
// own default.
const period = 100_000

// limits opens the parent once: the way to it is most of what a file costs.
func (*linux) limits(h hierarchy, parent string, ids []string) (map[string]limits, error) {
	dir := filepath.Join(h.path, parent)
	at, err := rawsys.Open(unix.AT_FDCWD, dir, unix.O_PATH|unix.O_DIRECTORY)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer rawsys.Close(at)
	out := make(map[string]limits, len(ids))
	for _, id := range ids {
		l, err := h.limits(at, id)
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		out[id] = l
	}
	return out, nil
}

// limits are the bounds of a group in the open directory at.
func (h hierarchy) limits(at int, group string) (limits, error) {
	l := limits{absent, absent, absent, absent, absent}
	if len(h.controllers) == 0 {
		fd, err := rawsys.Open(at, group, unix.O_PATH|unix.O_DIRECTORY)
		if err == nil {
			rawsys.Close(fd)
		}
		return l, err
	}
	r := reader{at: at, group: group}
	if h.has(memory) && h.v2 {
		l.memory, l.swap = r.number("memory.max"), r.optional("memory.swap.max")
	}
	if h.has(memory) && !h.v2 {
		l.memory = r.number("memory.limit_in_bytes")
		l.swap = beyond(l.memory, r.optional("memory.memsw.limit_in_bytes"))
	}
	if h.has(cpu) && h.v2 {
		l.quota, l.period = r.pair("cpu.max")
	}
	if h.has(cpu) && !h.v2 {
		l.quota, l.period = r.number("cpu.cfs_quota_us"), r.number("cpu.cfs_period_us")
	}
	if h.has(pids) {
		l.pids = r.number("pids.max")
	}
	return l, r.err
}

// beyond is how much swap v1 allows on top of memory: it bounds the sum.
func beyond(memory, sum int64) int64 {
	if sum < 0 {
		return sum
	}
	if memory == unlimited {
		return 0
	}
	return sum - memory
}

// reader reads a group's files and keeps the first error.
type reader struct {
	at    int // the directory that the group is in
	group string
	err   error
	buf   [64]byte // more than a number, or two, take
}

func (r *reader) text(file string) string {
	if r.err != nil {
		return ""
	}
	b, err := rawsys.ReadFile(r.at, r.group+"/"+file, r.buf[:])
	r.err = err
	return string(bytes.TrimSpace(b))
}

func (r *reader) number(file string) int64 { return r.parse(file, r.text(file)) }

// optional is absent for a file that this kernel does not have.
func (r *reader) optional(file string) int64 {
	if r.err != nil {
		return absent
	}
	n := r.number(file)
	if errors.Is(r.err, os.ErrNotExist) {
		r.err = nil
		return absent
	}
	return n
}

func (r *reader) pair(file string) (first, second int64) {
	a, b, _ := strings.Cut(r.text(file), " ")
	return r.parse(file, a), r.parse(file, b)
}

func (r *reader) parse(file, text string) int64 {
	if r.err != nil {
		return absent
	}
	if text == "max" || text == "-1" {
		return unlimited
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		r.err = fmt.Errorf("%s: %w", filepath.Join(r.group, file), err)
	}
	if n >= math.MaxInt64-1<<20 { // v1's "none": the largest number in whole pages
		return unlimited
	}
	return n
}

func (*linux) set(h hierarchy, group string, l limits) error {
	dir := filepath.Join(h.path, group)
	if len(h.controllers) == 0 {
		return nil
	}
	r := &cgroups.Resources{SkipDevices: true}
	if l.memory != absent {
		r.Memory = l.memory
	}
	switch {
	case l.memory == unlimited && l.swap != absent:
		r.MemorySwap = unlimited
	case l.memory > 0 && l.swap == 0:
		r.MemorySwap = l.memory // the library counts the sum, as v1 does
	}
	if l.quota != absent {
		r.CpuQuota, r.CpuPeriod = l.quota, uint64(l.period)
	}
	if l.pids != absent {
		r.PidsLimit = &l.pids
	}
	if h.v2 {
		m, err := fs2.NewManager(&cgroups.Cgroup{Resources: r}, dir)
		if err != nil {
			return err
		}
		return m.Set(r)
	}
	paths := map[string]string{}
	for _, c := range h.controllers {
		paths[c] = dir
	}
	m, err := fs.NewManager(&cgroups.Cgroup{Resources: r}, paths)
	if err != nil {
		return err
	}
	return m.Set(r)
}
