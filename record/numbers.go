package record

import (
	"time"

	"github.com/gabion-go/gabion/policy"
)

// numbers are policy.Numbers as they are written: the same fields in the same order.
type numbers struct {
	Limit      int                `json:"limit,omitempty"`
	InUse      int                `json:"in_use,omitempty"`
	Queued     int                `json:"queued,omitempty"`
	Waited     time.Duration      `json:"waited,omitempty"`
	Moved      policy.LimitCause  `json:"moved,omitempty"`
	Before     int                `json:"before,omitempty"`
	Each       time.Duration      `json:"each,omitempty"`
	Usual      time.Duration      `json:"usual,omitempty"`
	Answered   float64            `json:"answered,omitempty"`
	Left       time.Duration      `json:"left,omitempty"`
	Need       time.Duration      `json:"need,omitempty"`
	Requests   int64              `json:"requests,omitempty"`
	Accepts    int64              `json:"accepts,omitempty"`
	Over       float64            `json:"over,omitempty"`
	Shape      policy.BudgetShape `json:"shape,omitempty"`
	Calls      int64              `json:"calls,omitempty"`
	Allowed    int64              `json:"allowed,omitempty"`
	Resends    int64              `json:"resends,omitempty"`
	Level      float64            `json:"level,omitempty"`
	Ratio      float64            `json:"ratio,omitempty"`
	Successes  int64              `json:"successes,omitempty"`
	Ended      int                `json:"ended,omitempty"`
	Helped     int                `json:"helped,omitempty"`
	Window     time.Duration      `json:"window,omitempty"`
	Tokens     float64            `json:"tokens,omitempty"`
	Capacity   int                `json:"capacity,omitempty"`
	Cost       int                `json:"cost,omitempty"`
	Timeout    time.Duration      `json:"timeout,omitempty"`
	Percentile policy.Ratio       `json:"percentile,omitempty"`
	Failures   int64              `json:"failures,omitempty"`
	Slows      int64              `json:"slows,omitempty"`
	Rule       float64            `json:"rule,omitempty"`
	Bytes      int64              `json:"bytes,omitempty"`
}
