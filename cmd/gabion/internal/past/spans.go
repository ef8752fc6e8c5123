package past

import (
	"errors"
	"io"
)

func readSpans(in io.Reader, o Options) (*Past, error) { return nil, errors.New("todo") }
func readRange(in io.Reader, o Options) (*Past, error) { return nil, errors.New("todo") }
