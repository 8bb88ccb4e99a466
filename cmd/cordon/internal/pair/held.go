package pair

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/aicodesit/cordon/internal/run"
)

// Held is a front that stays the file that it was: a daemon goes on with it
// when another version was installed since.
type Held struct{ file *os.File }

// Hold holds the front that lies before this, the complete program of a
// version; nil when there is none. An error is of one that can't be used: it is
// of another version, say.
func Hold(ctx context.Context, version string) (*Held, error) {
	path, err := Before()
	if err != nil || path == "" {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	h := &Held{f}
	if err := h.check(ctx, version); err != nil {
		_ = f.Close()
		return nil, err
	}
	return h, nil
}

func (h *Held) check(ctx context.Context, version string) error {
	if err := owned(h.file); err != nil {
		return err
	}
	said, err := run.Output(ctx, h.Path(), "version")
	if err != nil {
		return fmt.Errorf("%s: %w", h.file.Name(), err)
	}
	if got := strings.TrimSpace(string(said)); got != Says(version) {
		return fmt.Errorf("%s is %s, but this is %s: install both of one build", h.file.Name(), got, Says(version))
	}
	return nil
}

// Path is by what this process can execute it.
func (h *Held) Path() string { return fmt.Sprintf("/proc/self/fd/%d", h.file.Fd()) }

// Says is what the version command prints.
func Says(version string) string { return Front + " " + version }
