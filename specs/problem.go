package specs

// Problem is something wrong with what was declared, at the place to change.
type Problem struct {
	Range   Range  // of the block
	Attr    string // the attribute at fault, nested ones by a dot: "pool", "filesystem.files"; "" is the block
	Value   string // the element of a list attribute at fault; "" is all of it
	Summary string // what is wrong: "two binds on one target"
	Detail  string // what would be right
	Missing bool   // names a block that the Set lacks; whoever resolved the references has said so already
}

// Check returns all that is wrong between the fields and blocks of s, in the
// order of the files. What a single value alone shows (a bad size, an
// unknown system call) was found when the value was read.
func (s Set) Check() []Problem {
	var c checker
	c.secrets(s)
	c.environments(s)
	c.proxies(s)
	c.networks(s)
	c.seccomps(s)
	c.sandboxes(s)
	c.gateways(s)
	c.projects(s)
	return c.sorted()
}
