package session

import (
	"slices"
	"testing"
)

func TestGitConfigComesBehindOthers(t *testing.T) {
	for _, tt := range []struct {
		env  []string
		want []string
	}{
		{nil, []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=k", "GIT_CONFIG_VALUE_0=v", "GIT_TERMINAL_PROMPT=0"}},
		{
			[]string{"A=b", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=user.name", "GIT_CONFIG_VALUE_0=a"},
			[]string{"A=b", "GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=user.name", "GIT_CONFIG_KEY_1=k", "GIT_CONFIG_VALUE_0=a", "GIT_CONFIG_VALUE_1=v", "GIT_TERMINAL_PROMPT=0"},
		},
	} {
		if got := overlay(tt.env, gitConfig(tt.env, "k", "v")); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q", tt.env, got)
		}
	}
}
