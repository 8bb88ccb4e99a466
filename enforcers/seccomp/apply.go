package seccomp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/aicodesit/cordon/internal/atomicfile"
	"github.com/aicodesit/cordon/reconciler"
)

// fileMode is of both files: a filter is no secret.
const fileMode = 0o644

// record stands beside a filter.
type record struct {
	Policy Resource `json:"policy"`
	SHA256 string   `json:"sha256"` // of the program, in hexadecimal digits
}

func digest(program []byte) string {
	sum := sha256.Sum256(program)
	return hex.EncodeToString(sum[:])
}

// files are the paths of one filter. The dots before names can't occur in a
// block's name: they mark what is not finished.
type files struct{ filter, record, newFilter, newRecord string }

func (e *Enforcer) files(name string) files {
	filter := e.dir.Seccomp(name)
	dir, base := filepath.Split(strings.TrimSuffix(filter, ".bpf"))
	return files{
		filter: filter, record: dir + base + ".json",
		newFilter: dir + "." + base + ".bpf", newRecord: dir + "." + base + ".json",
	}
}

// Apply implements [reconciler.Enforcer]. A file is replaced whole: who opens
// it meanwhile has the old filter or the new one.
func (e *Enforcer) Apply(ctx context.Context, c reconciler.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var err error
	if c.After == nil {
		err = e.remove(c.Addr())
	} else {
		err = e.write(ctx, c.After)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.Addr(), err)
	}
	return nil
}

func (e *Enforcer) write(ctx context.Context, want reconciler.Resource) error {
	r, ok := want.(Resource)
	if !ok {
		return fmt.Errorf("%T is no filter", want)
	}
	r.Drift = nil
	program, err := e.programs.of(ctx, r)
	if err != nil {
		return err
	}
	rec, err := json.Marshal(record{Policy: r, SHA256: digest(program)})
	if err != nil {
		return err
	}
	if _, err := e.dir.Make(filepath.Base(filepath.Dir(e.dir.Seccomp("")))); err != nil {
		return err
	}
	f := e.files(r.Filter)
	// Killed in between, the record is of another program: that is drift.
	if err := atomicfile.Replace(f.newFilter, f.filter, program, fileMode); err != nil {
		return err
	}
	return atomicfile.Replace(f.newRecord, f.record, rec, fileMode)
}

func (e *Enforcer) remove(addr reconciler.Addr) error {
	name, err := nameOf(addr)
	if err != nil {
		return err
	}
	f := e.files(name)
	for _, p := range []string{f.filter, f.record, f.newFilter, f.newRecord} {
		if err := os.Remove(p); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	dir := filepath.Dir(f.filter)
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		return nil // the next removal tries again
	}
	return os.Remove(dir)
}

// nameOf is the inverse of [Addr].
func nameOf(a reconciler.Addr) (string, error) {
	parts := a.Parts()
	if len(parts) != 2 || parts[0] != Name {
		return "", fmt.Errorf("%s: not the address of a filter", a)
	}
	return parts[1], nil
}
