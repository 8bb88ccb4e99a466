package seccomp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/reconciler"
)

// Read implements [reconciler.Enforcer]: every file in the directory of filters.
func (e *Enforcer) Read(ctx context.Context) ([]reconciler.Resource, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Dir(e.dir.Seccomp("")))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, entry := range entries {
		name := strings.TrimPrefix(entry.Name(), ".")
		name = strings.TrimSuffix(strings.TrimSuffix(name, ".bpf"), ".json")
		names[name] = true
	}
	return e.readNames(ctx, names)
}

// ReadPart implements [reconciler.PartReader].
func (e *Enforcer) ReadPart(ctx context.Context, addrs []reconciler.Addr) ([]reconciler.Resource, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, a := range addrs {
		name, err := nameOf(a)
		if err != nil {
			return nil, err
		}
		names[name] = true
	}
	return e.readNames(ctx, names)
}

func (e *Enforcer) readNames(ctx context.Context, names map[string]bool) ([]reconciler.Resource, error) {
	var out []reconciler.Resource
	for _, n := range slices.Sorted(maps.Keys(names)) {
		r, found, err := e.readFilter(ctx, n)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", Addr(n), err)
		}
		if found {
			out = append(out, r)
		}
	}
	return out, nil
}

// readFilter compares one filter with its record's policy.
func (e *Enforcer) readFilter(ctx context.Context, name string) (r Resource, found bool, err error) {
	f := e.files(name)
	var drift []string
	program, what, err := readFile(f.filter)
	if err != nil {
		return r, false, err
	}
	haveFilter := what != missing
	drift = note(drift, "the filter", what)
	text, what, err := readFile(f.record)
	if err != nil {
		return r, false, err
	}
	haveRecord := what != missing
	drift = note(drift, "the record", what)
	rec := record{}
	if haveRecord {
		if err := json.Unmarshal(text, &rec); err != nil {
			drift, rec = append(drift, "the record can't be read: "+err.Error()), record{}
		} else if haveFilter {
			drift = append(drift, e.departs(ctx, program, rec)...)
		}
	}
	haveRest := false
	for _, p := range []string{f.newFilter, f.newRecord} {
		if _, err := os.Lstat(p); err == nil {
			haveRest, drift = true, append(drift, filepath.Base(p)+" was left behind")
		}
	}
	r = rec.Policy
	r.Filter = name
	slices.Sort(drift)
	r.Drift = drift
	return r, haveFilter || haveRecord || haveRest, nil
}

// departs tells how a file's content is not the program of its policy.
func (e *Enforcer) departs(ctx context.Context, file []byte, rec record) []string {
	switch {
	case rec.SHA256 == "":
		return []string{"the record is of no filter"} // an older build's is
	case digest(file) != rec.SHA256:
		return []string{"the filter is not the one that its record is of"}
	case e.recorded:
		return nil
	}
	want, err := e.programs.of(ctx, rec.Policy)
	switch {
	case err != nil:
		return []string{"the policy of the record does not compile: " + err.Error()}
	case !bytes.Equal(file, want):
		return []string{"the filter is not what its policy compiles to"}
	}
	return nil
}

// missing is what [readFile] says of a file that is not there.
const missing = "is missing"

func note(drift []string, subject, what string) []string {
	if what == "" {
		return drift
	}
	return append(drift, subject+" "+what)
}

// readFile returns a file's content and what is wrong with it, if anything is.
func readFile(path string) (content []byte, what string, err error) {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, missing, nil
	}
	if err != nil {
		return nil, "", err
	}
	if !info.Mode().IsRegular() {
		return nil, "is no regular file", nil
	}
	if content, err = os.ReadFile(path); err != nil {
		return nil, "", err
	}
	var st, dir unix.Stat_t
	if err := errors.Join(unix.Lstat(path, &st), unix.Stat(filepath.Dir(path), &dir)); err != nil {
		return nil, "", err
	}
	switch {
	case info.Mode() != fileMode:
		what = fmt.Sprintf("has mode %o, not %o", info.Mode().Perm(), os.FileMode(fileMode))
	case st.Uid != dir.Uid: // whoever made the directory: who reads may be another
		what = fmt.Sprintf("belongs to user %d", st.Uid)
	}
	return content, what, nil
}
