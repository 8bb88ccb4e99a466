package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/aicodesit/cordon/internal/atomicfile"
)

// saveEvery is how often the ledger is written down: what a killed cordon may forget.
const saveEvery = time.Second

// ledgerFile is what is kept of a ledger over restarts.
type ledgerFile struct {
	FormatVersion int                `json:"format_version"`
	Accounts      map[string]written `json:"accounts"`
}

type written struct {
	amount
	Touched time.Time `json:"touched"`
}

func ledgerPath(dir, proxy string) string {
	return filepath.Join(dir, "budget-"+proxy+".json")
}

// load reads what was written down, and removes what a killed process left
// unfinished. A file that can't be read is an error: to begin at nothing would
// be more than was declared.
func (l *ledger) load(path string) error {
	_ = atomicfile.Tidy(path) // what stays is never read
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var f ledgerFile
	if err := json.Unmarshal(b, &f); err != nil {
		return fmt.Errorf("%s: %w (without the file all budgets begin anew)", path, err)
	}
	if f.FormatVersion != 1 {
		return fmt.Errorf("%s: format version %d is not known", path, f.FormatVersion)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, w := range f.Accounts {
		l.accounts[k] = &account{spent: w.amount, touched: w.Touched}
	}
	return nil
}

// save writes down what changed. What is reserved counts as spent: whoever
// reads it no longer has the requests to settle it.
func (l *ledger) save(path string) error {
	f := ledgerFile{FormatVersion: 1, Accounts: map[string]written{}}
	l.mu.Lock()
	if !l.changed {
		l.mu.Unlock()
		return nil
	}
	l.tidy(l.now())
	for k, a := range l.accounts {
		f.Accounts[k] = written{a.spent.plus(a.reserved), a.touched}
	}
	l.changed = false
	l.mu.Unlock()
	b, err := json.MarshalIndent(f, "", "\t")
	if err == nil {
		err = atomicfile.Write(path, b, 0o600)
	}
	if err != nil {
		l.mu.Lock()
		l.changed = true
		l.mu.Unlock()
	}
	return err
}
