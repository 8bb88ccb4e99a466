package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/aicodesit/cordon/internal/owner"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// Database is what PUBLIC, and so every role of a project, may do with the
// database and its schema public.
type Database struct {
	Database string   `json:"-"`
	Public   []string `json:"public"` // of connect, temporary; create, usage on public; sorted
	Drift    []string `json:"drift,omitempty"`
}

// Addr is postgres.database.DATABASE.
func (d Database) Addr() reconciler.Addr { return reconciler.NewAddr(Name, "database", d.Database) }

// Needs returns nothing.
func (d Database) Needs() []reconciler.Addr { return nil }

// databases are those with projects that cordon may change, or has changed when
// it might: otherwise a plan would give back what was taken.
func databases(set specs.Set) []reconciler.Resource {
	var out []reconciler.Resource
	for _, s := range set.Servers {
		db := specs.Find(set.Databases, s.Database)
		if db == nil || !manages(s) || !hasSchema(set, s.Database) {
			continue
		}
		public := db.Public
		if public == nil {
			public = []string{"connect", "usage"}
		}
		out = append(out, Database{Database: s.Database, Public: append([]string{}, public...)})
	}
	return out
}

func manages(s specs.Server) bool { return s.Superuser || s.Owner || s.Marked }

func databaseNotes(set specs.Set) []reconciler.Note {
	var out []reconciler.Note
	for _, s := range set.Servers {
		if !manages(s) && hasSchema(set, s.Database) {
			out = append(out, reconciler.Note{
				Addr: Database{Database: s.Database}.Addr(),
				Text: fmt.Sprintf("what PUBLIC may do with the database and the schema public stays as it is: only the database's owner or a superuser can change it, and cordon connects as %q", s.User),
			})
		}
	}
	return out
}

// liveDatabase is the access of PUBLIC as the catalogs have it.
type liveDatabase struct {
	owner, comment, publicOwner string // publicOwner "": there is no schema public
	acl, publicACL              []privilege
}

const databaseSQL = `
SELECT pg_get_userbyid(d.datdba), coalesce(shobj_description(d.oid, 'pg_database'), ''), coalesce(d.datacl, acldefault('d', d.datdba))::text[],
       coalesce(pg_get_userbyid(n.nspowner)::text, ''), coalesce(n.nspacl, acldefault('n', n.nspowner), '{}')::text[]
FROM pg_database d LEFT JOIN pg_namespace n ON n.nspname = 'public' WHERE d.datname = current_database()`

func (s *state) queueDatabase(b *pgx.Batch) {
	b.Queue(databaseSQL).QueryRow(func(row pgx.Row) error {
		var acl, public []string
		d := &s.live
		if err := row.Scan(&d.owner, &d.comment, &acl, &d.publicOwner, &public); err != nil {
			return err
		}
		var err error
		if d.acl, err = parseACL(acl, ""); err == nil {
			d.publicACL, err = parseACL(public, "")
		}
		return err
	})
}

// has is what PUBLIC may do.
func (d *liveDatabase) has() []string {
	out := []string{}
	for _, p := range append(slices.Clone(d.acl), d.publicACL...) {
		if p.grantee == "" {
			out = append(out, strings.ToLower(p.name))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (d Database) mark() string { return owner.Mark(string(d.Addr())) }

// took separates, in the mark, what was taken from PUBLIC and comes back at
// the end; what follows on other lines is the comment that the database had.
const took = " took "

// marked splits the comment of a marked database.
func (d Database) marked(comment string) (taken []string, rest string, ok bool) {
	first, rest, _ := strings.Cut(comment, "\n")
	mark, list, _ := strings.Cut(first, took)
	return strings.Fields(list), rest, mark == d.mark()
}

func (d Database) block() string   { return d.Database }
func (d Database) scope() scope    { return scope{} }
func (d Database) settled() object { d.Drift = nil; return d }

func (d Database) find(s *state) object {
	if _, _, ok := d.marked(s.live.comment); !ok {
		return nil
	}
	return Database{Database: s.block, Public: s.live.has()}
}

func (d Database) make(_ context.Context, _ pgx.Tx, s *state) ([]statement, error) {
	taken, rest, ok := d.marked(s.live.comment)
	if !ok {
		rest = s.live.comment
	}
	taken = minus(union(taken, minus(s.live.has(), d.Public)), d.Public)
	slices.Sort(taken)
	comment := strings.TrimSuffix(d.mark()+took+strings.Join(taken, " "), took)
	if rest != "" {
		comment += "\n" + rest
	}
	return append(d.alter(s, d.Public), d.comment(s, literal(comment))), nil
}

func (d Database) unmake(_ context.Context, _ pgx.Tx, s *state) ([]statement, error) {
	taken, rest, _ := d.marked(s.live.comment)
	comment := "NULL"
	if rest != "" {
		comment = literal(rest)
	}
	return append(d.alter(s, union(s.live.has(), taken)), d.comment(s, comment)), nil
}

func (d Database) comment(s *state, text string) statement {
	return statement{sql: "COMMENT ON DATABASE " + quote(s.database) + " IS " + text}
}

func (d Database) alter(s *state, want []string) []statement {
	public := func(grantee string) bool { return grantee == "" }
	wanted := func(list ...string) []Grant { return grants(map[string][]string{Public: both(want, list)}) }
	out, more := alterACL("DATABASE "+quote(s.database), s.live.owner, s.live.acl, public, wanted("connect", "temporary"))
	out = append(out, more...)
	if s.live.publicOwner == "" {
		return out
	}
	less, more := alterACL("SCHEMA public", s.live.publicOwner, s.live.publicACL, public, wanted("create", "usage"))
	return slices.Concat(out, less, more)
}
