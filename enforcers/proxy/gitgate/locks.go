package gitgate

import (
	"net/http"
	"net/url"
)

// locked is an answer about locks (docs/api/locking.md of Git LFS's sources):
// Locks of a listing, Ours and Theirs of a verification.
type locked struct {
	Locks      []lock `json:"locks"`
	Ours       []lock `json:"ours"`
	Theirs     []lock `json:"theirs"`
	NextCursor string `json:"next_cursor,omitempty"`
}

type lock struct {
	ID       string `json:"id"`
	Path     string `json:"path"`
	LockedAt string `json:"locked_at,omitempty"`
	Owner    *owner `json:"owner,omitempty"`
}

type owner struct {
	Name string `json:"name"`
}

// verification asks, before a push, whose locks there are.
type verification struct {
	Cursor string `json:"cursor,omitempty"`
	Limit  int    `json:"limit,omitempty"`
	Ref    *ref   `json:"ref,omitempty"`
}

// locks passes on what tells of locks: without it Git LFS would push over what
// somebody has locked. To make or to break one is not the session's, for it
// would be in the name of whose credential it is.
func (v *visit) locks(what, query string) *refusal {
	var got locked
	asIs := func() *refusal { return nil }
	switch {
	case what == "locks" && v.r.Method == http.MethodGet:
		kept := url.Values{}
		if given, err := url.ParseQuery(query); err == nil {
			for _, name := range []string{"path", "id", "cursor", "limit", "refspec"} {
				if given.Has(name) {
					kept.Set(name, given.Get(name))
				}
			}
		}
		return v.exchange("/info/lfs/locks?"+kept.Encode(), nil, &got, asIs)
	case what == "locks/verify" && query == "" && v.r.Method == http.MethodPost && len(v.git.Push) > 0:
		var asked verification
		if err := decode(&patient{v: v, from: v.r.Body}, &asked); err != nil {
			return &refusal{http.StatusUnprocessableEntity, "malformed", "not a verification of locks: " + err.Error()}
		}
		return v.exchange("/info/lfs/locks/verify", &asked, &got, asIs)
	}
	return &refusal{http.StatusForbidden, "path", "a session neither makes nor breaks locks"}
}
