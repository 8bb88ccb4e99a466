// Package reconciler makes live state match desired state.
//
// Desired state and live state are the same type, a list of [Resource]. An
// [Enforcer] yields both for one subsystem and applies one [Change] at a time;
// comparing, ordering, rendering, applying, undoing and collecting garbage are
// written here, once, for all of them.
//
// # Contract of an Enforcer
//
//   - Normal form. Desired and Read yield the same JSON for the same state:
//     what the kernel or the catalog reads back. Apply, then plan, is empty.
//   - Ownership. Read yields what bears cordon's mark and nothing else. What
//     bears no mark is not seen, so it can't be planned for change.
//   - Idempotence. Creating what exists and deleting what is gone succeed: the
//     world may have moved since Read, or an earlier Apply may have been killed
//     half way.
//   - Cost. Read asks no command, query or dump for each thing; small files of
//     /proc, of cgroupfs and of the run directory it may read.
//   - Honesty. A Read that could not see everything returns an error, never a
//     shorter list: a list that is too short deletes.
//
// # What holds in return
//
// Calls to an Enforcer never overlap. Apply is called for a Change only when
// all that its After needs has been applied, and for a delete only when nothing
// that is there needs it any more, or may. A failed Change skips what needs it
// and nothing else. A [Batcher] gets changes together with what they wait for,
// and makes none whose predecessor failed.
package reconciler
