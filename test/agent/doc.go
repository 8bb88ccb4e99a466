// Package agent runs the real client (test/deps.sh installs it) in sessions,
// against an upstream of the tests' own, on a throwaway host: what works, what
// a hostile project achieves, and where the credentials are to be found.
package agent
