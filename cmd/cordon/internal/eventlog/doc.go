// Package eventlog keeps what happened on a host: a [loop.Event] a line, as
// JSON, in numbered files below the state directory, for root alone to read.
//
// The daemon, commands that a person types and sessions all append, at the
// same time and without a word between them. The file with the highest number
// is the one that grows; who appends has it locked (flock). When it is full the
// next one is made and the oldest is removed, so what the log takes of the disk
// is bounded. A file that has a successor never changes again, which is why
// readers need no lock.
//
// Nothing is synced: what was written in the last seconds before a loss of
// power may be missing. A line that is not whole, or is not an event, is passed
// over by readers and ended by the next writer.
package eventlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// What a Log without limits of its own keeps.
const (
	defaultFileSize = 8 << 20
	defaultFiles    = 8
)

// Log is the events of one host. It has no state: any number may be used at
// once, in any number of processes.
type Log struct {
	Dir      string // mode 0700; made when the first event is appended
	FileSize int64  // bytes from which on a file is full; 0 is 8 MiB
	Files    int    // that are kept; 0 is 8, and 2 the least
}

// In is the log of a state directory.
func In(stateDir string) Log { return Log{Dir: filepath.Join(stateDir, "events")} }

func (l Log) fileSize() int64 {
	if l.FileSize <= 0 {
		return defaultFileSize
	}
	return l.FileSize
}

func (l Log) files() int {
	if l.Files <= 0 {
		return defaultFiles
	}
	return max(l.Files, 2)
}

const (
	prefix = "events-"
	suffix = ".jsonl"
)

func (l Log) path(number int) string {
	return filepath.Join(l.Dir, fmt.Sprintf("%s%06d%s", prefix, number, suffix))
}

// numbers are those of the files there are, from the oldest on.
func (l Log) numbers() ([]int, error) {
	entries, err := os.ReadDir(l.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []int
	for _, e := range entries {
		digits, ok := strings.CutPrefix(strings.TrimSuffix(e.Name(), suffix), prefix)
		n, err := strconv.Atoi(digits)
		if ok && err == nil && n > 0 && e.Type().IsRegular() && l.path(n) == filepath.Join(l.Dir, e.Name()) {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, nil
}
