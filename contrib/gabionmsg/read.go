package gabionmsg

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wm "github.com/ThreeDotsLabs/watermill/message"

	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/messages/message"
)

// DueMetadata is the metadata of a copy that [Options].Later sent: when its work may run, in
// milliseconds since 1970 UTC.
const DueMetadata = "Gabion-Due"

// read returns what Watermill knows of a message.
func read(msg *wm.Message) consumer.Message {
	h := headers(msg.Metadata)
	id := h.Get(message.Key)
	if id == "" {
		id = msg.UUID
	}
	return consumer.Message{
		Message: inbox.Message{ID: id, Payload: msg.Payload, Headers: h},
		Source:  wm.SubscribeTopicFromCtx(msg.Context()),
	}
}

// headers are the metadata in the order of their names.
func headers(of wm.Metadata) message.Headers {
	if len(of) == 0 {
		return nil
	}
	h := make(message.Headers, 0, len(of))
	for name, value := range of {
		h = append(h, message.Header{Name: name, Value: value})
	}
	if len(h) > 1 {
		slices.SortFunc(h, func(a, b message.Header) int { return cmp.Compare(a.Name, b.Name) })
	}
	return h
}

// name gives a message that has no ID a place of its own: two that say the same are two
// dead letters.
func name(m *consumer.Message) {
	if m.ID == "" && m.Position == "" {
		m.Position = watermill.NewUUID()
	}
}

// longestWait is the longest wait that is believed: no policy asks for more.
const longestWait = 48 * time.Hour

// dueOf returns when the work of a copy may run; the zero time for other messages, and where
// it can't be read or believed.
func dueOf(m *consumer.Message) time.Time {
	text, found := m.Headers.Lookup(DueMetadata)
	if !found {
		return time.Time{}
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if at := time.UnixMilli(ms); err == nil && time.Until(at) <= longestWait {
		return at
	}
	return time.Time{}
}

// copyOf returns the message as it is sent again, under the same name.
func (d *delivery) copyOf() *wm.Message {
	c := wm.NewMessage(d.msg.UUID, d.msg.Payload)
	c.Metadata = make(wm.Metadata, len(d.msg.Metadata)+6)
	for _, h := range d.m.Headers {
		c.Metadata[h.Name] = h.Value
	}
	if d.m.ID != "" {
		set(c.Metadata, message.Key, d.m.ID)
	}
	c.SetContext(d.msg.Context())
	return c
}

// set gives the metadata one value of that name, whatever its case was.
func set(m wm.Metadata, name, value string) {
	for other := range m {
		if strings.EqualFold(other, name) {
			delete(m, other)
		}
	}
	m[name] = value
}
