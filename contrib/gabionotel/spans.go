package gabionotel

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// The attributes, of spans and of metrics.
const (
	keyDependency = attribute.Key("gabion.dependency")
	keyOperation  = attribute.Key("gabion.operation")
	keyPartition  = attribute.Key("gabion.partition")
	keyOutcome    = attribute.Key("gabion.outcome")
	keyReason     = attribute.Key("gabion.reason")
	keyEffect     = attribute.Key("gabion.effect")
	keyAttempts   = attribute.Key("gabion.attempts")
	keyHedges     = attribute.Key("gabion.hedges")
	keyAttempt    = attribute.Key("gabion.attempt")
	keyKind       = attribute.Key("gabion.attempt.kind")
	keyClass      = attribute.Key("gabion.class")
	keyCode       = attribute.Key("gabion.code")
	keySlow       = attribute.Key("gabion.slow")
	keyLost       = attribute.Key("gabion.lost")
	keyWon        = attribute.Key("gabion.won")
	keyResends    = attribute.Key("gabion.resend_count")
	keyLeft       = attribute.Key("gabion.deadline.left")
	keyFor        = attribute.Key("gabion.wait.for")
	keyWait       = attribute.Key("gabion.wait.duration")
	keyAfter      = attribute.Key("gabion.retry_after")
	keyErrorType  = attribute.Key("error.type")
	keyStatus     = attribute.Key("http.response.status_code")
	keyHTTPResend = attribute.Key("http.request.resend_count")
)

// tell adds an event to the spans that it is about.
func (o *Observer) tell(ctx context.Context, e *gabion.Event) {
	switch e.Kind { // what comes with its caller's context and not with that of a call
	case policy.KindFellBack:
		trace.SpanFromContext(ctx).AddEvent("gabion.fallback", trace.WithAttributes(
			keyDependency.String(e.Dependency), keyReason.String(e.Reason.String())))
		return
	case policy.KindKeyDecided, policy.KindMessageDisposed:
		result, why, _ := strings.Cut(e.Code, "/") // of messages with the reason
		as := append(about(e), keyResult.String(result))
		if why != "" {
			as = append(as, keyReason.String(why))
		}
		trace.SpanFromContext(ctx).AddEvent("gabion."+e.Kind.String(), trace.WithAttributes(as...))
		return
	}
	if e.Call == 0 { // about the dependency: the call that happened to tell it need not be its cause
		return
	}
	if c := o.find(ctx, e.Call); c != nil {
		c.tell(e)
	}
}

// tell adds an event to the call's spans.
func (c *call) tell(e *gabion.Event) {
	switch e.Kind {
	case policy.KindAttemptSettled, policy.KindLoserSettled:
		if span := c.end(e.Attempt, e.At); span != nil {
			settle(span, e)
			span.End()
		}
	case policy.KindWaiting:
		c.span.AddEvent("gabion.wait", trace.WithAttributes(
			keyAttempt.Int(int(e.Attempt)), keyFor.String(e.Wait), keyWait.Float64(e.Until.Sub(e.At).Seconds())))
	case policy.KindAttemptRefused:
		c.span.AddEvent("gabion.refused", trace.WithAttributes(refusal(e)...))
	case policy.KindHedgeSkipped:
		c.span.AddEvent("gabion.hedge_skipped", trace.WithAttributes(refusal(e)...))
	case policy.KindBodyFailed:
		c.broke(e)
	case policy.KindReturned:
		returned(c.span, e)
		c.span.End()
	}
}

// refusal says why something was not sent.
func refusal(e *gabion.Event) []attribute.KeyValue {
	as := []attribute.KeyValue{keyAttempt.Int(int(e.Attempt)), keyReason.String(e.Reason.String())}
	if after := e.Until.Sub(e.At); e.Kind == policy.KindAttemptRefused && after > 0 && e.Until != policy.Never {
		as = append(as, keyAfter.Float64(after.Seconds()))
	}
	if e.Left != policy.NoDeadline {
		as = append(as, keyLeft.Float64(e.Left.Seconds()))
	}
	return appendNumbers(as, e.Reason, e.Numbers)
}

// returned says how the call ended.
func returned(span trace.Span, e *gabion.Event) {
	as := make([]attribute.KeyValue, 0, 16)
	as = append(as, keyOutcome.String(e.Reason.String()), keyAttempts.Int(int(e.Attempt)), keyEffect.String(e.Effect.String()))
	if e.Hedges > 0 {
		as = append(as, keyHedges.Int(int(e.Hedges)), keyWon.Bool(e.Hedge))
	}
	if e.Code != "" {
		as = append(as, keyCode.String(e.Code))
	}
	if e.Reason != policy.None {
		as = append(as, keyReason.String(e.Reason.String()), keyErrorType.String(e.Reason.String()))
		as = appendNumbers(as, e.Reason, e.Numbers)
		span.SetStatus(codes.Error, e.Reason.String())
	}
	span.SetAttributes(as...)
}

// settle says how an attempt ended. An attempt that was ignored, as one is whose call was
// won by another, says nothing about the dependency: it is no error.
func settle(span trace.Span, e *gabion.Event) {
	as := make([]attribute.KeyValue, 0, 8)
	as = append(as, keyClass.String(e.Class.String()))
	if e.Kind == policy.KindLoserSettled {
		as = append(as, keyLost.Bool(true))
	}
	if e.Slow {
		as = append(as, keySlow.Bool(true))
	}
	if e.Code != "" {
		as = append(as, keyCode.String(e.Code))
	}
	if status, ok := httpStatus(e.Code); ok {
		as = append(as, keyStatus.Int(status))
		if e.Attempt > 1 {
			as = append(as, keyHTTPResend.Int(int(e.Attempt)-1))
		}
	}
	if e.Class != policy.ClassSuccess {
		as = append(as, keyEffect.String(e.Effect.String()))
		if e.Class != policy.ClassIgnored {
			why := errorType(e)
			as = append(as, keyErrorType.String(why))
			span.SetStatus(codes.Error, why)
		}
	}
	span.SetAttributes(as...)
}

// errorType is the layer that timed out, else the dependency's own word, else the class.
func errorType(e *gabion.Event) string {
	switch {
	case e.Reason != policy.None:
		return e.Reason.String()
	case e.Code != "":
		return e.Code
	}
	return e.Class.String()
}

// httpStatus reads a code that is a status of HTTP. Other codes look otherwise: an
// SQLSTATE has five characters.
func httpStatus(code string) (status int, ok bool) {
	if len(code) != 3 || code[0] < '1' || code[0] > '5' {
		return 0, false
	}
	for _, digit := range []byte(code) {
		if digit < '0' || digit > '9' {
			return 0, false
		}
		status = status*10 + int(digit-'0')
	}
	return status, true
}

// broke makes a span of a result that broke after its attempt's verdict, and so after
// the attempt's span ended. It lasts from the verdict until now.
func (c *call) broke(e *gabion.Event) {
	above, since := c.settled(e.Attempt)
	if above == nil {
		return
	}
	why := "broken"
	if e.Reason != policy.None {
		why = e.Reason.String()
	}
	_, span := c.of.tracer.Start(trace.ContextWithSpan(c, above), c.names.result,
		trace.WithTimestamp(since), trace.WithAttributes(append(about(e), keyAttempt.Int(int(e.Attempt)), keyErrorType.String(why))...))
	span.SetStatus(codes.Error, why)
	span.End()
}
