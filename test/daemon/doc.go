// Package daemon tries the daemon on the real program and a whole throwaway
// host: that every kind of drift is seen, named and repaired, and that it can
// be killed at any moment.
package daemon
