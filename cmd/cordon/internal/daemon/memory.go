package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/aicodesit/cordon/internal/atomicfile"
	"github.com/aicodesit/cordon/internal/source"
	"github.com/aicodesit/cordon/reconciler/loop"
)

const (
	memoryMagic = "cordon-daemon 1 "
	maxMemory   = 1 << 20 // bytes
)

// LoadMemory reads what [SaveMemory] wrote at path; no file is no memory. What a
// daemon that was killed left unfinished goes.
func LoadMemory(path string) (loop.Memory, error) {
	var m loop.Memory
	_ = atomicfile.Tidy(path) // what stays is never read
	b, err := source.ReadChecked(path, memoryMagic, maxMemory)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		return loop.Memory{}, fmt.Errorf("what the daemon before left: %w", err)
	}
	return m, nil
}

// SaveMemory replaces the file at path.
func SaveMemory(path string, m loop.Memory) error {
	if m == (loop.Memory{}) {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return source.WriteChecked(path, memoryMagic, b)
}
