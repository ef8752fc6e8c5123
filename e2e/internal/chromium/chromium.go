// Package chromium starts a browser for tests.
package chromium

import (
	"context"
	"errors"
	"os/exec"

	"github.com/chromedp/chromedp"
)

// ErrMissing says that no Chromium is installed.
var ErrMissing = errors.New("no Chromium is installed")

// Start starts a browser without a window and returns its context. It and its files are gone when
// stop returns.
func Start(ctx context.Context) (browser context.Context, stop func(), err error) {
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		program, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox)
		ctx, end := chromedp.NewExecAllocator(ctx, options...)
		ctx, cancel := chromedp.NewContext(ctx)
		stop := func() { cancel(); end() }
		if err := chromedp.Do(ctx); err != nil {
			stop()
			return nil, nil, err
		}
		return ctx, stop, nil
	}
	return nil, nil, ErrMissing
}
