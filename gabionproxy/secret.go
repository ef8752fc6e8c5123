package gabionproxy

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

const hidden = "xxxxx"

// shown is a text without the password that it may have as a URL. What can't be read is not shown.
func shown(text string) string {
	scheme, _, is := strings.Cut(text, "://")
	if !is {
		return text
	}
	u, ok := readable(text)
	if !ok {
		return scheme + "://" + hidden
	}
	if secrets := secretsOf(u); len(secrets) == 0 {
		return text
	}
	query := u.Query()
	for name := range query {
		if tellsSecret(name) {
			query.Set(name, hidden)
			u.RawQuery = query.Encode()
		}
	}
	if _, with := u.User.Password(); !with && isToken(u) {
		u.User = url.User(hidden)
	}
	return u.Redacted()
}

// readable is a URL, unless its parts can't be told for sure: a slash or a question mark in a password that is not escaped
// ends the host there, and what is left of the password is then a part of the path.
func readable(text string) (*url.URL, bool) {
	u, err := url.Parse(text)
	return u, err == nil && (u.User != nil || !strings.Contains(text, "@"))
}

// isToken reports whether the name before a host is the secret itself, as in URLs of NATS.
func isToken(u *url.URL) bool {
	_, with := u.User.Password()
	return u.User != nil && !with && (u.Scheme == "nats" || u.Scheme == "tls")
}

func tellsSecret(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "pass") || strings.Contains(name, "token") || strings.Contains(name, "secret")
}

// secretsOf are the passwords of a URL, as they are written and as they are meant.
func secretsOf(u *url.URL) (all []string) {
	if password, ok := u.User.Password(); ok {
		_, written, _ := strings.Cut(u.User.String(), ":")
		all = append(all, password, written)
	} else if isToken(u) {
		all = append(all, u.User.Username(), u.User.String())
	}
	for name, values := range u.Query() {
		if tellsSecret(name) {
			for _, v := range values {
				all = append(all, v, url.QueryEscape(v))
			}
		}
	}
	return all
}

// sealed is an error about a store, without the passwords of the store's name. Drivers quote what they can't read.
func sealed(name string, err error) error {
	safe := shown(name)
	if err == nil || safe == name {
		return err
	}
	text := err.Error()
	for _, form := range []string{name, strings.Trim(fmt.Sprintf("%q", name), `"`)} {
		text = strings.ReplaceAll(text, form, safe)
	}
	u, ok := readable(name)
	if !ok {
		return fmt.Errorf("%s can't be opened: what follows the scheme is no URL", safe)
	}
	for _, secret := range secretsOf(u) {
		if len(secret) > 0 && strings.Contains(text, secret) {
			if len(secret) < 4 { // to replace a letter everywhere would tell which one it was
				return fmt.Errorf("%s can't be opened", safe)
			}
			text = strings.ReplaceAll(text, secret, hidden)
		}
	}
	return errors.New(text)
}
