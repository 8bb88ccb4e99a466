package cli

import "github.com/aicodesit/cordon/specs"

// FilterCommand is the command of the complete program that compiles a filter
// for one that can't. It is asked by a [seccomp.Resource] as JSON on its standard
// input, and says the program and nothing else.
const FilterCommand = "filter"

// VaultCommand is the command of the complete program that reads a secret from
// a Vault for one that can't, and VaultQuestion what it is asked on its standard
// input. It says the value and nothing else.
const VaultCommand = "vault"

// VaultQuestion is for [VaultCommand].
type VaultQuestion struct {
	Secret specs.VaultSecret `json:"secret"`
	Token  string            `json:"token"`
}
