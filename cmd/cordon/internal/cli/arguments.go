package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// explainArguments makes the commands below cmd say how they are used when what
// is given is too little or too much.
func explainArguments(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		if fit := c.Args; fit != nil {
			c.Args = func(c *cobra.Command, args []string) error {
				err := fit(c, args)
				if err == nil || errors.As(err, new(ExitError)) { // it was shown
					return err
				}
				if len(args) > 0 && fit(c, nil) == nil && fit(c, args[:1]) != nil {
					return fmt.Errorf("%s takes no arguments: %s", c.Name(), usageLine(c))
				}
				return misused(c)
			}
		}
		explainArguments(c)
	}
}

// misused is the error for too many arguments, or too few.
func misused(c *cobra.Command) error {
	return fmt.Errorf("wrong number of arguments: %s", usageLine(c))
}

func usageLine(c *cobra.Command) string { return c.Parent().CommandPath() + " " + c.Use }
