// Package gitlogin reads the credentials of git's hosts.
package gitlogin

import (
	"encoding/base64"
	"errors"
	"net/url"
	"strings"
)

// tokenUser is the user name that goes with a token: hosts of repositories
// look at the token only.
const tokenUser = "x-access-token"

// maxPassword bounds a password, in bytes.
const maxPassword = 4 << 10

// Login is what a secret means to a host of repositories.
type Login struct{ User, Password string }

// Parse reads a secret, TOKEN or USER:PASSWORD. Its error does not hold it.
func Parse(value string) (Login, error) {
	user, password, ok := strings.Cut(value, ":")
	if !ok {
		user, password = tokenUser, value
	}
	if strings.ContainsAny(value, "\n\r\x00") || password == "" || len(value) > maxPassword {
		return Login{}, errors.New("the credential is neither a token nor user:password")
	}
	return Login{User: user, Password: password}, nil
}

// Basic is the value of an Authorization header (RFC 7617).
func (l Login) Basic() string { return "Basic " + l.base64() }

func (l Login) base64() string {
	return base64.StdEncoding.EncodeToString([]byte(l.User + ":" + l.Password))
}

// Forms are the ways in which the secret may be written by who was sent it.
func (l Login) Forms() []string {
	return []string{l.Password, url.QueryEscape(l.Password), url.PathEscape(l.Password), l.base64()}
}
