package m11

import (
	"errors"
	"time"
)

var ErrTimeout = errors.New("timed out")

type Scorer interface{ Score(text string) float64 }

func Score(s Scorer, text string) (float64, error) {
	ch := make(chan float64)
	go func() {
		ch <- s.Score(text)
	}()
	select {
	case v := <-ch:
		return v, nil
	case <-time.After(250 * time.Millisecond):
		return 0, ErrTimeout
	}
}
