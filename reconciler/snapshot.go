package reconciler

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/aicodesit/cordon/specs"
)

// SnapshotVersion is the format_version of snapshots. A reader refuses
// another one.
const SnapshotVersion = "1.0"

// Snapshot is what a host looked like: all live resources and facts, without
// secrets. A plan can be made from it where the host is out of reach.
type Snapshot struct {
	FormatVersion string            `json:"format_version"`
	Leases        []specs.Lease     `json:"leases,omitempty"`
	Tables        []specs.Table     `json:"tables,omitempty"`
	Functions     []specs.Function  `json:"functions,omitempty"`
	Servers       []specs.Server    `json:"servers,omitempty"`
	Resources     []Recorded        `json:"resources"`
	Failed        map[string]string `json:"failed,omitempty"` // enforcer → why it could not be read
}

// Snapshot reads the host. set tells which databases to read.
func (r *Reconciler) Snapshot(ctx context.Context, set specs.Set) (*Snapshot, error) {
	set, failures := r.Survey(ctx, set)
	s := &Snapshot{FormatVersion: SnapshotVersion, Leases: set.Leases, Tables: set.Tables, Functions: set.Functions, Servers: set.Servers, Resources: []Recorded{}, Failed: map[string]string{}}
	for _, f := range failures {
		s.Failed[f.Enforcer] = f.Err.Error()
	}
	for _, e := range r.Enforcers {
		if _, bad := s.Failed[e.Name]; bad {
			continue
		}
		live, err := e.Read(ctx)
		if err != nil {
			s.Failed[e.Name] = err.Error()
			continue
		}
		for _, res := range live {
			rec, err := Record(res)
			if err != nil {
				return nil, err
			}
			s.Resources = append(s.Resources, rec)
		}
	}
	slices.SortFunc(s.Resources, func(a, b Recorded) int { return compareAddr(a.Address, b.Address) })
	return s, nil
}

// facts returns set with the facts of the snapshot.
func (s *Snapshot) facts(set specs.Set) specs.Set {
	set.Leases, set.Tables, set.Functions, set.Servers = s.Leases, s.Tables, s.Functions, s.Servers
	return set
}

// ReadSnapshot decodes a snapshot. It returns an error for another format
// version, unknown fields and anything behind the document.
func ReadSnapshot(in io.Reader) (*Snapshot, error) {
	s := new(Snapshot)
	if err := decodeStrict(in, s); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	if s.FormatVersion != SnapshotVersion {
		return nil, fmt.Errorf("snapshot: format_version is %q, this build reads %q: record it again with `cordon snapshot`", s.FormatVersion, SnapshotVersion)
	}
	return s, nil
}

func decodeStrict(in io.Reader, v any) error {
	d := json.NewDecoder(in)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("something follows the JSON document")
	}
	return nil
}
