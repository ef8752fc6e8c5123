package gabionaws_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionaws"
	"github.com/gabion-go/gabion/policy"
)

// What is answered with a 400 and means "later" is repeated, whatever the operation does,
// and is no failure; what the request itself is to blame for is not repeated.
func TestWhatAnAnswerMeans(t *testing.T) {
	tests := []struct {
		status   int
		code     string
		attempts int
		reason   gabion.Reason
		effect   policy.Effect
	}{
		{400, "ThrottlingException", 3, policy.AttemptsExhausted, policy.NoEffect},
		{400, "ProvisionedThroughputExceededException", 3, policy.AttemptsExhausted, policy.NoEffect},
		{400, "RequestLimitExceeded", 3, policy.AttemptsExhausted, policy.NoEffect},
		{503, "SlowDown", 3, policy.AttemptsExhausted, policy.NoEffect},
		{429, "Unheard", 3, policy.AttemptsExhausted, policy.NoEffect},
		{400, "TransactionConflictException", 15, policy.AttemptsExhausted, policy.NoEffect},
		{400, "RequestTimeout", 1, policy.NotSafe, policy.UnknownEffect},
		{500, "InternalFailure", 1, policy.NotSafe, policy.UnknownEffect},
		{503, "ServiceUnavailable", 1, policy.NotSafe, policy.UnknownEffect},
		{400, "ValidationException", 1, policy.NotRetryable, policy.NoEffect},
		{400, "AccessDeniedException", 1, policy.NotRetryable, policy.NoEffect},
		{501, "NotImplemented", 1, policy.NotRetryable, policy.NoEffect},
		{400, "ConditionalCheckFailedException", 1, policy.NotRetryable, policy.NoEffect},
		{400, "ResourceNotFoundException", 1, policy.NotRetryable, policy.NoEffect},
	}
	for _, tt := range tests {
		t.Run(tt.code, func(t *testing.T) {
			t.Parallel()
			s := serve(t, fails(tt.status, tt.code))
			d := gabion.New("table", quick())
			_, err := dynamodb.NewFromConfig(s.config(d)).UpdateItem(t.Context(), update("ADD amount :a"))
			if n := s.attempts(); n != tt.attempts {
				t.Errorf("%d attempts, want %d", n, tt.attempts)
			}
			if r := gabion.ReasonOf(err); r != tt.reason || gabion.EffectOf(err) != tt.effect {
				t.Errorf("%v, effect %v, want %v, %v", r, gabion.EffectOf(err), tt.reason, tt.effect)
			}
			var api smithy.APIError
			if !errors.As(err, &api) || api.ErrorCode() != tt.code {
				t.Errorf("got %v", err)
			}
			nothingHeld(t, d)
		})
	}
}

// Where an answer was lost, work that may have been done is repeated only if doing it twice
// is doing it once. Where nothing was sent, everything is.
func TestWhatIsRepeatedAfterALostAnswer(t *testing.T) {
	type call func(context.Context, aws.Config) error
	send := func(queue string) call {
		return func(ctx context.Context, cfg aws.Config) error {
			_, err := sqs.NewFromConfig(cfg).SendMessage(ctx, message(queue))
			return err
		}
	}
	set := func(in *dynamodb.UpdateItemInput) call {
		return func(ctx context.Context, cfg aws.Config) error {
			_, err := dynamodb.NewFromConfig(cfg).UpdateItem(ctx, in)
			return err
		}
	}
	guarded := update("ADD amount :a")
	guarded.ConditionExpression = aws.String("version = :v")
	tests := []struct {
		name     string
		call     call
		opts     []gabionaws.Option
		repeated bool
	}{
		{"a message", send("orders"), nil, false},
		{"a message to a queue that knows it again", send("orders.fifo"), nil, true},
		{"a message that is declared idempotent", send("orders"), []gabionaws.Option{gabionaws.Idempotent("SQS.SendMessage")}, true},
		{"a message, with the option on its context", func(ctx context.Context, cfg aws.Config) error {
			return send("orders")(gabionaws.WithOptions(ctx, gabion.WithIdempotent()), cfg)
		}, nil, true},
		{"a value that is set", set(update("SET amount = :a")), nil, true},
		{"a value that is set, declared otherwise", set(update("SET amount = :a")), []gabionaws.Option{gabionaws.NotIdempotent("DynamoDB.UpdateItem")}, false},
		{"a value that is counted", set(update("SET amount = amount + :a")), nil, false},
		{"a value that is added", set(update("add amount :a")), nil, false},
		{"a list that grows", set(update("SET l = list_append(l, :a)")), nil, false},
		{"a value that is added under a condition", set(guarded), nil, true},
		{"an item", func(ctx context.Context, cfg aws.Config) error {
			_, err := dynamodb.NewFromConfig(cfg).PutItem(ctx, put())
			return err
		}, nil, true},
		{"a query", func(ctx context.Context, cfg aws.Config) error {
			_, err := dynamodb.NewFromConfig(cfg).ExecuteStatement(ctx, &dynamodb.ExecuteStatementInput{Statement: aws.String("select * FROM t")})
			return err
		}, nil, true},
		{"a statement", func(ctx context.Context, cfg aws.Config) error {
			_, err := dynamodb.NewFromConfig(cfg).ExecuteStatement(ctx, &dynamodb.ExecuteStatementInput{Statement: aws.String("UPDATE t SET a = a + 1")})
			return err
		}, nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, reset, fine)
			d := gabion.New("aws", quick())
			err := tt.call(t.Context(), s.config(d, tt.opts...))
			if tt.repeated != (err == nil) || tt.repeated != (s.attempts() == 2) {
				t.Errorf("after %d attempts: %v", s.attempts(), err)
			}
			if err != nil && (gabion.EffectOf(err) != policy.UnknownEffect || !errors.Is(err, policy.NotSafe)) {
				t.Errorf("effect %v: %v", gabion.EffectOf(err), err)
			}
			nothingHeld(t, d)

			s, d = serve(t, fine), gabion.New("aws", quick())
			cfg := s.config(d, tt.opts...)
			cfg.HTTPClient = &http.Client{Transport: &refuses{RoundTripper: s.base, times: 1}}
			if err := tt.call(t.Context(), cfg); err != nil || s.attempts() != 1 {
				t.Errorf("after a connection that was refused: %d requests, %v", s.attempts(), err)
			}
		})
	}
}

// Half an answer to work that was done is not asked for again.
func TestHalfAnAnswerIsNotRepeated(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "20")
		io.WriteString(w, `{"Attributes":`)
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	_, err := dynamodb.NewFromConfig(s.config(gabion.New("table", quick()))).PutItem(t.Context(), put())
	if s.attempts() != 1 || gabion.EffectOf(err) != policy.UnknownEffect {
		t.Errorf("%d attempts, effect %v: %v", s.attempts(), gabion.EffectOf(err), err)
	}
}

// Every attempt sends the whole stream, signed anew; one that can't be rewound is sent once.
func TestStreamsAreSentWholeOrOnce(t *testing.T) {
	content := strings.Repeat("0123456789", 100_000)
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("skipped"+content), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	file.Seek(int64(len("skipped")), io.SeekStart)
	tests := []struct {
		name  string
		body  io.Reader
		again bool
	}{
		{"text", strings.NewReader(content), true},
		{"a file from where it stands", file, true},
		{"a pipe's end", io.MultiReader(strings.NewReader(content)), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, failsS3(503, "SlowDown"), reset, text(200, "", "", "Etag", `"e"`))
			d := gabion.New("storage", quick())
			client := s3.NewFromConfig(s.config(d), func(o *s3.Options) {
				o.UsePathStyle, o.RequestChecksumCalculation = true, aws.RequestChecksumCalculationWhenRequired
				if !tt.again {
					o.APIOptions = append(o.APIOptions, v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware)
				}
			})
			_, err := client.PutObject(t.Context(), &s3.PutObjectInput{
				Bucket: aws.String("b"), Key: aws.String("k"), Body: tt.body, ContentLength: aws.Int64(int64(len(content))),
			})
			if tt.again != (err == nil) || tt.again != (s.attempts() == 3) {
				t.Fatalf("after %d attempts: %v", s.attempts(), err)
			}
			for n, body := range s.bodies {
				if body != content {
					t.Errorf("attempt %d sent %d bytes of %d", n+1, len(body), len(content))
				}
			}
			nothingHeld(t, d)
		})
	}
}

// An attempt says which it is, of how many, whatever the SDK would have done.
func TestAttemptsAreNumbered(t *testing.T) {
	s := serve(t, fails(500, "InternalFailure"))
	d := gabion.New("table", quick())
	cfg := s.config(d)
	cfg.RetryMaxAttempts, cfg.RetryMode = 10, aws.RetryModeAdaptive
	_, err := dynamodb.NewFromConfig(cfg).PutItem(t.Context(), put())
	if got, want := s.headers("Amz-Sdk-Request"), []string{"attempt=1; max=3", "attempt=2; max=3", "attempt=3; max=3"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	ids := s.headers("Amz-Sdk-Invocation-Id")
	if ids[0] == "" || ids[0] != ids[2] {
		t.Errorf("one call has the IDs %q", ids)
	}
	if signed := s.headers("Authorization"); signed[0] == signed[1] || signed[1] == signed[2] {
		t.Errorf("a signature was used twice: %q", signed)
	}
	if !errors.Is(err, policy.AttemptsExhausted) {
		t.Error(err)
	}
}

// The SDK's errors, and the request's ID, are below gabion's.
func TestErrorsStayReachable(t *testing.T) {
	s := serve(t, fails(400, "ConditionalCheckFailedException"))
	d := gabion.New("table", quick())
	_, err := dynamodb.NewFromConfig(s.config(d)).PutItem(t.Context(), put())
	var failed *types.ConditionalCheckFailedException
	var response *awshttp.ResponseError
	var operation *smithy.OperationError
	var own *gabion.Error
	if !errors.As(err, &failed) || !errors.As(err, &operation) || !errors.As(err, &own) {
		t.Errorf("got %v", err)
	}
	if !errors.As(err, &response) || response.ServiceRequestID() != "request-7" || response.HTTPStatusCode() != 400 {
		t.Errorf("got %v", response)
	}
	if st := d.Stats(); st.Partitions[0].Name != "DynamoDB" || st.Partitions[0].Breaker.Counts.Failures != 0 {
		t.Errorf("got %+v", st.Partitions)
	}
}

// Clocks that differ are noticed by the first attempt, and the second is signed by the
// service's.
func TestTheClockIsCorrected(t *testing.T) {
	ahead := time.Hour
	skewed := func(w http.ResponseWriter, r *http.Request) {
		now := time.Now().Add(ahead)
		w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
		signed, _ := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		if now.Sub(signed).Abs() > 10*time.Minute {
			fails(400, "InvalidSignatureException")(w, r)
			return
		}
		fine(w, r)
	}
	s := serve(t, skewed)
	client := dynamodb.NewFromConfig(s.config(gabion.New("table", quick())))
	for want := 2; want <= 3; want++ { // the second call has learnt it
		if _, err := client.UpdateItem(t.Context(), update("ADD amount :a")); err != nil || s.attempts() != want {
			t.Fatalf("after %d attempts: %v", s.attempts(), err)
		}
	}
}

// Credentials that can't be had are nothing that the service did.
func TestCredentialsThatCannotBeHad(t *testing.T) {
	s := serve(t, fine)
	d := gabion.New("table", quick())
	cfg := s.config(d)
	cfg.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{}, errors.New("no credentials")
	})
	_, err := dynamodb.NewFromConfig(cfg).UpdateItem(t.Context(), update("ADD amount :a"))
	if gabion.EffectOf(err) != policy.NoEffect || s.attempts() != 0 {
		t.Errorf("effect %v: %v", gabion.EffectOf(err), err)
	}
	if n := d.Stats().Partitions[0].Breaker.Counts.Failures; n != 0 {
		t.Errorf("%d failures", n)
	}
	cfg.Credentials = credentials.NewStaticCredentialsProvider("id", "secret", "")
	if _, err := dynamodb.NewFromConfig(cfg).UpdateItem(t.Context(), update("ADD amount :a")); err != nil {
		t.Error(err)
	}
}

// A body that the caller reads keeps its slot until it was read, closed, or broke off.
func TestABodyKeepsItsSlot(t *testing.T) {
	half := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		io.WriteString(w, "hello")
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	tests := []struct {
		name   string
		answer http.HandlerFunc
		use    func(*testing.T, io.ReadCloser)
		failed int64
	}{
		{"read to the end", text(200, "text/plain", "hello"), func(t *testing.T, b io.ReadCloser) {
			if got, err := io.ReadAll(b); string(got) != "hello" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		}, 0},
		{"closed, twice", text(200, "text/plain", "hello"), func(t *testing.T, b io.ReadCloser) { b.Close(); b.Close() }, 0},
		{"broken off", half, func(t *testing.T, b io.ReadCloser) {
			if _, err := io.ReadAll(b); err == nil {
				t.Error("it is whole")
			}
		}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, tt.answer)
			d := gabion.New("storage", quick())
			out, err := s.s3(d).GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("b"), Key: aws.String("k")})
			if err != nil {
				t.Fatal(err)
			}
			if n := d.Stats().Bulkhead.InUse; n != 1 {
				t.Errorf("%d slots are taken while the body is open", n)
			}
			tt.use(t, out.Body)
			nothingHeld(t, d)
			if n := d.Stats().Partitions[0].Breaker.Counts.Failures; n != tt.failed {
				t.Errorf("%d failures, want %d", n, tt.failed)
			}
		})
	}
}

// A request that is only signed, for another to send, is no call.
func TestPresigningIsNoCall(t *testing.T) {
	d := gabion.New("storage", quick())
	client := s3.NewPresignClient(serve(t, fine).s3(d))
	signed, err := client.PresignGetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("b"), Key: aws.String("k")})
	if err != nil || !strings.Contains(signed.URL, "X-Amz-Signature") {
		t.Errorf("%v, %v", signed, err)
	}
	if n := d.Stats().Totals.Calls; n != 0 {
		t.Errorf("%d calls", n)
	}
}

// Where a client goes through two dependencies, the one added last makes the call, alone.
func TestTheLastDependencyCounts(t *testing.T) {
	s := serve(t, fails(500, "InternalFailure"))
	first, second := gabion.New("all", quick()), gabion.New("table", quick())
	client := dynamodb.NewFromConfig(s.config(first), func(o *dynamodb.Options) {
		o.APIOptions = append(o.APIOptions, gabionaws.Middleware(second))
	})
	client.PutItem(t.Context(), put())
	if s.attempts() != 3 || first.Stats().Totals.Calls != 0 || second.Stats().Totals.Calls != 1 {
		t.Errorf("%d attempts, %d and %d calls", s.attempts(), first.Stats().Totals.Calls, second.Stats().Totals.Calls)
	}
}

// What the caller says of an answer counts more than what is known of it.
func TestTheCallerMayClassify(t *testing.T) {
	s := serve(t, fails(400, "ItemLocked"), fine)
	cfg := s.config(gabion.New("table", quick()), gabionaws.WithClassify(func(_ any, err error) (o policy.Outcome) {
		var api smithy.APIError
		if errors.As(err, &api) && api.ErrorCode() == "ItemLocked" {
			o.Class, o.Undone = policy.ClassContention, true
		}
		return o
	}))
	if _, err := dynamodb.NewFromConfig(cfg).PutItem(t.Context(), put()); err != nil || s.attempts() != 2 {
		t.Errorf("after %d attempts: %v", s.attempts(), err)
	}
}

func TestMistakesPanicAtOnce(t *testing.T) {
	for name, f := range map[string]func(){
		"no config":     func() { gabionaws.Configure(nil, gabion.New("a", policy.Policy{})) },
		"no dependency": func() { gabionaws.Configure(new(aws.Config), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("it does not panic")
				}
			}()
			f()
		})
	}
}

// refuses lets no connection through the first times.
type refuses struct {
	http.RoundTripper
	times int
}

func (r *refuses) RoundTrip(req *http.Request) (*http.Response, error) {
	if r.times--; r.times >= 0 {
		req = req.Clone(req.Context())
		req.URL.Host = "127.0.0.1:1"
	}
	return r.RoundTripper.RoundTrip(req)
}
