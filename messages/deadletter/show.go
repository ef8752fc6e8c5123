package deadletter

import (
	"fmt"
	"io"
	"log/slog"
)

// String names the letter without its payload and the values of its headers, which must not
// get into logs by accident.
func (l Letter) String() string {
	return fmt.Sprintf("letter %s of %q: %s, %q, %d bytes", l.ID, l.Group, l.State, l.Reason, len(l.Payload))
}

// GoString is String.
func (l Letter) GoString() string { return l.String() }

// Format writes String, whatever the verb.
func (l Letter) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, l.String()) }

// LogValue implements slog.LogValuer. It has no payload and no header.
func (l Letter) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("id", string(l.ID)), slog.String("group", l.Group), slog.String("state", l.State.String()),
		slog.String("reason", l.Reason), slog.Int("attempts", l.Attempts), slog.Int("bytes", len(l.Payload)),
	)
}
