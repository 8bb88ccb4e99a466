package transcript

import (
	"testing"

	"github.com/aicodesit/cordon/internal/kerneltest"
)

func TestMain(m *testing.M) { kerneltest.Main(m) }
