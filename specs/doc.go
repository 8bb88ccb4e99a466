// Package specs is the desired state: plain structs, the rules that hold
// between their fields, and the names that follow from them.
//
// It knows nothing of the language the state was written in (package hcl
// fills a [Set]) nor of the systems it is enforced on (the packages under
// enforcers turn a Set into resources). It imports the standard library only,
// does no I/O and needs no privilege.
//
// A Set holds two kinds of things. Blocks are what the owners declared.
// Facts ([Lease], [Table]) are what others make and cordon must follow: a
// session that runs, a table that an application's migration created. Both
// are inputs of the same Desired, so what a fact needs comes and goes by the
// same diff as what a block needs.
package specs
