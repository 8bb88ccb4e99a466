// Package loop keeps a host at what its files say: it looks again and again,
// at once when something may have changed, and repairs what differs.
//
// # Groups and parts
//
// Enforcers whose resources need each other are planned together, as a
// [Group]; groups know nothing of each other. What is known (condition,
// failures, drift) is kept for each enforcer, as a [Part], and what is tried
// again later for each resource, so that one that fails delays nothing but what
// waits for it.
//
// # A pass
//
// A pass plans. When something is to be changed it takes the group's lock, if
// there is one (the host's, under which no session starts or ends), and plans
// again; it makes the changes, and looks again until there is nothing to do.
// What was made has converged when that was seen. Passes come at the interval, when
// [Loop.Wake] says that something may have happened, and when something is to
// be tried again.
//
// # Drift
//
// Something that was as desired at the revision, and is not any more, has
// drifted. What comes and goes with sessions is left to the processes that run
// them for a moment: what they don't make or remove themselves is no drift. A
// resource that drifts back again and again is a fight, and is repaired at
// longer and longer intervals.
package loop
