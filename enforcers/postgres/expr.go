package postgres

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// subject is who is logged in, as pg_get_expr writes it: the claim "sub" of
// the token that the gateway has checked. After a SET LOCAL has ended, the
// setting is ” on that connection and not NULL, so nullif.
const subject = `((NULLIF(current_setting('request.jwt.claims'::text, true), ''::text))::json ->> 'sub'::text)`

// sqlPrefix marks an expression in no short form: drift, in the catalog's words.
const sqlPrefix = "sql: "

// short is the normal form of the conditions that cordon makes: own(column)
// and nobody's(column). The catalog writes them differently for columns of
// different types, which Desired does not know.
func short(kind, column string) string { return kind + "(" + column + ")" }

// shorten turns what pg_get_expr says under an empty search_path into the
// normal form.
func shorten(expr string) string {
	if expr == "" || expr == "true" {
		return expr
	}
	if inner, ok := between(expr, "(", " IS NULL)"); ok {
		if column, ok := identifier(inner); ok {
			return short("nobody's", column)
		}
	}
	if inner, ok := between(expr, "(", " = "+subject+")"); ok {
		if cast, ok := between(inner, "(", ")::text"); ok {
			inner = cast
		}
		if column, ok := identifier(inner); ok {
			return short("own", column)
		}
	}
	return sqlPrefix + expr
}

// expand turns the normal form into SQL.
func expand(form string) string {
	if column, ok := between(form, "own(", ")"); ok {
		return pgx.Identifier{column}.Sanitize() + "::text = " + subject
	}
	if column, ok := between(form, "nobody's(", ")"); ok {
		return pgx.Identifier{column}.Sanitize() + " IS NULL"
	}
	return strings.TrimPrefix(form, sqlPrefix)
}

func between(s, prefix, suffix string) (string, bool) {
	if len(s) < len(prefix)+len(suffix) || !strings.HasPrefix(s, prefix) || !strings.HasSuffix(s, suffix) {
		return "", false
	}
	return s[len(prefix) : len(s)-len(suffix)], true
}

// identifier parses s as one identifier, as quote_identifier in the server's
// ruleutils.c writes them.
func identifier(s string) (string, bool) {
	if inner, ok := between(s, `"`, `"`); ok {
		name := strings.ReplaceAll(inner, `""`, `"`)
		return name, strings.Count(inner, `"`) == 2*strings.Count(name, `"`)
	}
	for i, c := range s {
		lower := c >= 'a' && c <= 'z' || c == '_'
		if !lower && (i == 0 || c < '0' || c > '9') {
			return "", false
		}
	}
	return s, s != ""
}
