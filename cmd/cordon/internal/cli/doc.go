// Package cli is what the two programs share: the complete one, and the small
// one before it (cmd/cordon/front), which has the commands of this package
// alone. How a command begins and ends is here, the settings that all have, and
// the commands that start sessions, list and stop them. It imports none of the
// libraries that only other commands need: what they initialise costs a start
// more than all that it does (test/imports holds it).
package cli
