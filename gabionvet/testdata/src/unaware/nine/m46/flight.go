package flight

import (
	"context"
	"sync"
)

type call struct {
	done chan struct{}
	v    string
	err  error
}

type Loader struct {
	mu   sync.Mutex
	m    map[string]*call
	load func(ctx context.Context, id string) (string, error)
}

func (l *Loader) Get(ctx context.Context, id string) (string, error) {
	l.mu.Lock()
	if c, ok := l.m[id]; ok {
		l.mu.Unlock()
		<-c.done
		return c.v, c.err
	}
	c := &call{done: make(chan struct{})}
	l.m[id] = c
	l.mu.Unlock()
	c.v, c.err = l.run(ctx, id)
	l.mu.Lock()
	delete(l.m, id)
	l.mu.Unlock()
	close(c.done)
	return c.v, c.err
}

func (l *Loader) run(ctx context.Context, id string) (string, error) {
	return l.load(ctx, id)
}
