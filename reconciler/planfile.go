package reconciler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// PlanVersion is the format_version of plans in JSON. A reader refuses
// another one.
const PlanVersion = "1.0"

// PlanFile is a plan as JSON: for machines to read, and to apply later.
type PlanFile struct {
	FormatVersion string        `json:"format_version"`
	Declared      string        `json:"declared"` // digest of the specs
	Changes       []FileChange  `json:"changes"`
	Summary       Summary       `json:"summary"`
	Notes         []Note        `json:"notes,omitempty"`
	NotEnforced   []string      `json:"not_enforced,omitempty"`
	Failures      []FileFailure `json:"failures,omitempty"`

	// Of a plan between revisions, and of files with errors, which have none.
	Base     string        `json:"base,omitempty"`
	Head     string        `json:"head,omitempty"`
	Remarks  []string      `json:"remarks,omitempty"`
	Problems []FileProblem `json:"problems,omitempty"`
}

// FileProblem is a Problem as JSON.
type FileProblem struct {
	Severity string `json:"severity"` // error, warning
	Place    string `json:"place,omitempty"`
	Summary  string `json:"summary"`
	Detail   string `json:"detail,omitempty"`
	Block    string `json:"block,omitempty"`
}

// FileChange is a Change as JSON. Before and After are the attributes.
type FileChange struct {
	Address Addr            `json:"address"`
	Action  Action          `json:"action"`
	Before  json.RawMessage `json:"before,omitempty"`
	After   json.RawMessage `json:"after,omitempty"`
	Needs   []Addr          `json:"needs,omitempty"`
}

// FileFailure is a Failure as JSON.
type FileFailure struct {
	Enforcer string `json:"enforcer"`
	Error    string `json:"error"`
}

// Summary counts changes by action.
type Summary struct {
	Add    int `json:"add"`
	Change int `json:"change"`
	Remove int `json:"remove"`
}

func (s Summary) String() string {
	return fmt.Sprintf("%d to add, %d to change, %d to remove", s.Add, s.Change, s.Remove)
}

// Summary counts p's changes.
func (p *Plan) Summary() Summary {
	var s Summary
	for _, c := range p.Changes {
		s.Count(c)
	}
	return s
}

// Count adds c.
func (s *Summary) Count(c Change) {
	switch c.Action() {
	case Create:
		s.Add++
	case Update:
		s.Change++
	case Delete:
		s.Remove++
	}
}

// File returns p as JSON holds it.
func (p *Plan) File() (*PlanFile, error) {
	f := &PlanFile{
		FormatVersion: PlanVersion, Declared: p.Set.Digest(), Changes: []FileChange{}, Summary: p.Summary(),
		Notes: p.Notes, NotEnforced: p.Set.NotEnforced(),
	}
	for _, c := range p.Changes {
		fc := FileChange{Address: c.Addr(), Action: c.Action()}
		var err error
		if c.Before != nil {
			if fc.Before, err = attributes(c.Before); err != nil {
				return nil, err
			}
		}
		if c.After != nil {
			if fc.After, err = attributes(c.After); err != nil {
				return nil, err
			}
			fc.Needs = c.After.Needs()
		}
		f.Changes = append(f.Changes, fc)
	}
	for _, x := range p.Failures {
		f.Failures = append(f.Failures, FileFailure{x.Enforcer, x.Err.Error()})
	}
	return f, nil
}

// ReadPlan decodes a plan that [PlanFile] encoded.
func ReadPlan(in io.Reader) (*PlanFile, error) {
	f := new(PlanFile)
	if err := decodeStrict(in, f); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	if f.FormatVersion != PlanVersion {
		return nil, fmt.Errorf("plan: format_version is %q, this build reads %q: make the plan again", f.FormatVersion, PlanVersion)
	}
	return f, nil
}

// Current returns an error that says what has moved when now, a plan just
// computed, is not the same as f.
func (f *PlanFile) Current(now *Plan) error {
	if f.Base != "" || len(f.Problems) > 0 {
		return fmt.Errorf("the plan compares revisions, or is of files with errors: it can't be applied")
	}
	if f.Declared != now.Set.Digest() {
		return fmt.Errorf("the files have changed since the plan was made: plan again")
	}
	fresh, err := now.File()
	if err != nil {
		return err
	}
	then := make(map[Addr]FileChange, len(f.Changes))
	for _, c := range f.Changes {
		then[c.Address] = c
	}
	for _, c := range fresh.Changes {
		if old, ok := then[c.Address]; !ok || !sameChange(old, c) {
			return fmt.Errorf("%s: the live state has changed since the plan was made: plan again", c.Address)
		}
		delete(then, c.Address)
	}
	for _, c := range f.Changes {
		if _, left := then[c.Address]; left {
			return fmt.Errorf("%s: the live state has changed since the plan was made (nothing to do there now): plan again", c.Address)
		}
	}
	return nil
}

func sameChange(a, b FileChange) bool {
	return a.Action == b.Action && sameJSON(a.Before, b.Before) && sameJSON(a.After, b.After)
}

// sameJSON compares in normal form: an indented file holds the same as none.
func sameJSON(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}
