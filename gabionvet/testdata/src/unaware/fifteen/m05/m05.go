package m05

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
)

type dirUser struct {
	ID   string `json:"id"`
	Mail string `json:"mail"`
}

type dirPage struct {
	Users []dirUser `json:"users"`
	Next  string    `json:"next"`
}

type dirStore interface {
	Upsert(ctx context.Context, u dirUser) error
	// DeleteExcept deprovisions everyone who is not in keep.
	DeleteExcept(ctx context.Context, keep map[string]bool) error
}

type dirSync struct {
	hc    *http.Client // Timeout: 15s
	base  string
	store dirStore
}

func (d *dirSync) users(ctx context.Context) iter.Seq[dirUser] {
	return func(yield func(dirUser) bool) {
		for cursor, more := "", true; more; {
			page, err := d.page(ctx, cursor)
			if err != nil {
				slog.ErrorContext(ctx, "directory page", "cursor", cursor, "err", err)
				// WRONG: a failed page looks like the end of the list, so Sync deprovisions every user of the pages not read
				return
			}
			for _, u := range page.Users {
				if !yield(u) {
					return
				}
			}
			cursor, more = page.Next, page.Next != ""
		}
	}
}

func (d *dirSync) Sync(ctx context.Context) error {
	seen := map[string]bool{}
	for u := range d.users(ctx) {
		seen[u.ID] = true
		if err := d.store.Upsert(ctx, u); err != nil {
			return err
		}
	}
	return d.store.DeleteExcept(ctx, seen)
}

// RIGHT
func (d *dirSync) allUsers(ctx context.Context) iter.Seq2[dirUser, error] {
	return func(yield func(dirUser, error) bool) {
		for cursor, more := "", true; more; {
			page, err := d.page(ctx, cursor)
			if err != nil {
				yield(dirUser{}, fmt.Errorf("directory page %q: %w", cursor, err))
				return
			}
			for _, u := range page.Users {
				if !yield(u, nil) {
					return
				}
			}
			cursor, more = page.Next, page.Next != ""
		}
	}
}

func (d *dirSync) SyncWhole(ctx context.Context) error {
	seen := map[string]bool{}
	for u, err := range d.allUsers(ctx) {
		if err != nil {
			return err
		}
		seen[u.ID] = true
		if err := d.store.Upsert(ctx, u); err != nil {
			return err
		}
	}
	return d.store.DeleteExcept(ctx, seen)
}

func (d *dirSync) page(ctx context.Context, cursor string) (p dirPage, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.base+"/users?limit=500&cursor="+url.QueryEscape(cursor), nil)
	if err != nil {
		return p, err
	}
	resp, err := d.hc.Do(req)
	if err != nil {
		return p, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return p, fmt.Errorf("directory: %s", resp.Status)
	}
	err = json.NewDecoder(io.LimitReader(resp.Body, 8<<20)).Decode(&p)
	if err == nil && p.Next != "" && p.Next == cursor {
		err = fmt.Errorf("cursor %q does not advance", cursor)
	}
	return p, err
}
