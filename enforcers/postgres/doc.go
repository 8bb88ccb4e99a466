// Package postgres enforces who may reach which rows, in PostgreSQL itself:
// it holds whoever connects, and however.
//
// # Mechanism
//
// A project with a schema block gets a schema of its name and four roles that
// can't log in: NAME_anon, NAME_user, NAME_admin, NAME_service. Whoever serves
// requests becomes one of them (SET LOCAL ROLE) and says who is logged in
// (SET LOCAL request.jwt.claims). Grants tell which commands a role may use;
// row level security, enabled and forced, on which rows:
//
//   - admin and service: all rows of the schema's tables. Both by a policy,
//     not BYPASSRLS: that attribute would hold in every schema. They never get
//     TRUNCATE, REFERENCES or TRIGGER, which look past policies.
//   - logged in: the rows whose owner column, as text, is the token's sub.
//     Where the table has no such column: nothing, also when something is
//     declared (the plan has a note): a list of commands says what, not whose.
//   - anonymous: with "select" every row; with the others the rows that are
//     nobody's (owner column NULL), or every row where there is no such column.
//   - What the anonymous may do, the logged-in may do on the same rows, unless
//     their own list is declared and lacks it.
//
// A table that is not named is closed to the anonymous and open to the
// logged-in for their own rows. A partition or inheriting table that is not
// named follows what is said of the outermost table, for it can be read
// directly too. Other kinds of relation have no policies: a view gets nothing
// unless it is made with security_invoker (then the tables below it decide
// the rows), and its anon and user nothing unless named; a materialized view
// gives select to admin and service, and to the anonymous if declared; a
// foreign table gives nothing unless named. Roles that may insert may use the
// sequences of serial columns (identity columns need no privilege).
//
// Functions, procedures and aggregates of a project's schema are executed by
// admin and service, and by others where a function block says so; those that
// look past policies (SECURITY DEFINER of a superuser or a role with BYPASSRLS,
// LEAKPROOF) only if one does. What PUBLIC may do by default is taken away, now
// and (by the default privileges of the schema's owner, which know no schemas)
// for what is made later. An
// owner that is a superuser keeps its defaults, for they would hold for the
// extensions that it makes; functions of extensions are left alone. Types are
// usable by all, as PostgreSQL has it.
//
// Forced row level security binds the tables' owner too: a view or function
// of the owner's is no way around. A migration that moves rows must therefore
// run as a superuser or a role with BYPASSRLS, or switch FORCE off and on in
// its own transaction. Foreign keys are not affected. A materialized view is
// filled as its owner: where that is bound, REFRESH says so and fails.
//
// A table that others make in a marked schema is closed in the transaction
// that makes it, and so is a function, by an event trigger (see [Guard]) where
// a superuser could make one: row level security is forced and there is no
// policy until the next apply. A plan has a note where that is not so.
//
// Two more event triggers of the guard tell who watches (see [Enforcer.Watch])
// by NOTIFY that something changed. A transaction that changes more than
// temporary tables can therefore not be prepared (PREPARE TRANSACTION).
//
// # What is cordon's
//
// Mark: a comment beginning with cordon: and the address on roles, schemas
// and policies. A privilege held by a marked role bears the mark of its
// holder. A schema that lost its mark counts as marked while its service role
// bears one: all that the mark kept away is seen and put right with it. So
// these are read, planned and put right:
//
//   - roles: attributes, settings, memberships either way with their options
//     (but for that of the role that cordon connects as), privileges on
//     databases, types, languages, large objects and what else there is.
//
//   - the authenticator, if one is declared: attributes, settings, memberships
//     in roles of PostgreSQL's own and in those that reach rows of projects,
//     members, and what it owns or may do in marked schemas, with what leads
//     there, with the catalogs, and with what is in no schema but that it may
//     connect. What else it has stays: it need not serve cordon alone.
//
//   - what PUBLIC may do with the database and the schema public.
//
//   - privileges of marked roles on schemas, relations and columns, in
//     whatever schema, by whatever grantor; of PUBLIC, in marked schemas.
//     REVOKE has to be said as the grantor; what our roles granted on goes
//     with it (CASCADE).
//
//   - default privileges of whoever, that would give a marked role something,
//     or PUBLIC something in a marked schema: there, or in all schemas by a role
//     that reaches rows of projects.
//
//   - on tables in marked schemas: row level security itself, policies named
//     cordon_…, and permissive policies of others that are for PUBLIC or a
//     marked role, since each opens rows to them. Such a policy is narrowed to
//     the roles that are not cordon's, or dropped if there are none.
//     Restrictive ones only take away, and stay.
//
//   - schemas and relations that belong to a marked role, as an owner is above
//     all that: they are given to the schema's owner, or to cordon's role.
//
//   - what lies elsewhere and leads to rows of projects past their policies
//     (see [Exposure]): what PUBLIC and marked roles may do with it. Objects
//     themselves are never changed, however they came to be.
//
// Ways that start at a project's own table (rules, triggers, what else of a
// stranger's runs there, parts and foreign keys of another project's) are facts:
// see [specs.Unsafe]. The commands that they make unsafe are desired for nobody.
// The table's owner and superusers are trusted: a trigger of theirs may copy
// what is written to wherever they like.
//
// Publications, replication slots and subscriptions give no role of a project's
// anything: who reads by them needs REPLICATION, which is drift. Foreign keys
// and unique indexes within the projects' schemas tell, by what they refuse,
// that a key is there, as PostgreSQL has it. What a superuser marks by hand as
// an extension's can't be told from what the extension brought.
//
// Privileges of other roles, their policies, comments on tables, and the
// tables themselves are never touched. A role that has the right name and no
// mark is an error, never taken over. A schema that is there already is
// adopted: its comment is kept behind the mark, and comes back at the end; what
// PUBLIC has on its relations is taken away with the adoption.
//
// Removal takes away what cordon gave. Row level security stays enabled, for
// other roles may have grants; only FORCE is lifted, which binds none but the
// owner. The schema is dropped if cordon made it and it is empty. A role that
// owns something is not dropped; that is an error which names what.
//
// # How
//
// Reading is a constant number of queries for each database, in one
// repeatable-read transaction. Changes are made together, up to some hundred
// in one transaction (see [Enforcer.ApplyAll]) under an advisory lock: it reads
// the objects again, sends what is different in one go, and reads what has
// become of them. Where that fails, halves are tried by themselves, each behind
// a savepoint, so that what is refused does not keep the rest from being made.
// A lock_timeout keeps cordon from standing in front of the application's
// queries for long; what lost against others (deadlocks and the like) is tried
// again alone, a few times.
// Locks: GRANT takes none that readers wait for; policies and row level
// security take ACCESS EXCLUSIVE on the one table.
// That is asked for with NOWAIT, again and again for a while, so that nothing
// of the application's ever stands in a queue behind cordon.
//
// The conditions of policies are compared as the server writes them with only
// pg_catalog on the search_path, in a short form (see [Policy]). Those that are
// alike in all but the table are put in words once in each read: it is what
// takes the server longest.
//
// # Privilege
//
// A superuser, or a role with CREATEROLE, CREATE on the database and
// membership in the owners of the schemas and tables; from PostgreSQL 16 on also
// the ADMIN option on the projects' roles, which it has on those that it made.
// What only a superuser may do (take SUPERUSER from a role, act as a grantor that cordon's role is
// no member of) then fails with an error that says so. The connection must be
// direct and to the primary: a pooler in between and a standby are refused.
//
// There is no fake: the tests run on a PostgreSQL that they start themselves,
// see internal/pgtest.
package postgres
