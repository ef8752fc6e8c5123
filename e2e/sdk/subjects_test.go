package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/go-resty/resty/v2"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stripe/stripe-go/v85"

	"github.com/gabion-go/gabion/contrib/gabionaws"
	"github.com/gabion-go/gabion/policy"
)

func subjects() []*subject {
	return []*subject{openAI(), claude(), payments(), s3Put(), s3Get(), table(), byModule(s3Put(), twoFailures), byModule(s3Get(), twoFailures), byModule(table(), twoFailuresOfTable), search(), restyGet(0), restyGet(2), restyPost()}
}

// twoFailures are the faults in which an attempt fails twice and the third would not.
var twoFailures = []string{
	"refused twice", "reset before the work, twice", "429 twice", "429 with Retry-After-Ms",
	"503 twice", "529 twice", "500 twice", "one of each",
}

// refusedTwice are those in which gabion repeats a POST by itself, for they had no effect,
// and marks the second answer, so that the SDK stops too.
var refusedTwice = []string{"429 twice", "429 with Retry-After-Ms"}

// says answers with a JSON text.
func says(text string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		io.WriteString(w, text)
	}
}

// failsWith answers with a status and a JSON text.
func failsWith(text string, header ...string) func(http.ResponseWriter, int) {
	return func(w http.ResponseWriter, status int) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, text)
	}
}

// twice is what docs/http.md gives where gabion takes the place of an SDK's two repetitions:
// a new client has as many.
var twice = policy.Retry{Budget: policy.Budget{Start: 2, Reserve: 2}}

// models is the policy for model providers: what their SDKs repeat, gabion repeats.
var models = policy.Policy{
	Safe:  true, // a completion that is made twice costs twice, and does nothing else
	HTTP:  policy.HTTP{Transient: []int{409, 500}},
	Retry: twice,
}

func openAI() *subject {
	s := &subject{
		name: "openai-go", policy: models,
		answer: says(`{"id":"c-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hello"}}]}`),
		fails:  failsWith(`{"error":{"message":"busy","type":"server_error"}}`),
	}
	s.more.asIs = 1 // where no answer comes: two, and one for each repetition of the SDK's
	s.worse.frugal, s.worse.asIs = twoFailures, refusedTwice
	s.connect = func(l link) call {
		opts := []option.RequestOption{
			option.WithBaseURL(l.url), option.WithAPIKey("k"), option.WithHTTPClient(&http.Client{Transport: l.rt}),
		}
		if l.page {
			opts = append(opts, option.WithMaxRetries(0))
		}
		client := openai.NewClient(opts...)
		return func(ctx context.Context, _ int) error {
			c, err := client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
				Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")},
			})
			if err == nil && c.Choices[0].Message.Content != "hello" {
				return fmt.Errorf("got %v", c)
			}
			return err
		}
	}
	return s
}

func claude() *subject {
	s := &subject{
		name: "anthropic-sdk-go", policy: onceEach,
		answer: says(`{"id":"m-1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`),
		fails:  failsWith(`{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`),
	}
	s.more.asIs = 1
	s.worse.asIs = refusedTwice
	s.connect = func(l link) call {
		client := anthropic.NewClient(anthropicoption.WithBaseURL(l.url), anthropicoption.WithAPIKey("k"),
			anthropicoption.WithHTTPClient(&http.Client{Transport: l.rt}))
		return func(ctx context.Context, _ int) error {
			m, err := client.Messages.New(ctx, anthropic.MessageNewParams{
				Model: "m", MaxTokens: 10, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hi"))},
			})
			if err == nil && m.Content[0].Text != "hello" {
				return fmt.Errorf("got %v", m)
			}
			return err
		}
	}
	return s
}

func payments() *subject {
	s := &subject{
		name:   "stripe-go",
		policy: policy.Policy{Key: policy.KeyMade, HTTP: policy.HTTP{Transient: []int{409, 500}}, Retry: twice},
		answer: says(`{"id":"pi_1","object":"payment_intent","amount":500}`),
		fails:  failsWith(`{"error":{"type":"api_error","message":"busy"}}`),
	}
	s.more.page, s.more.asIs = 1, 1 // stripe-go repeats once more what gabion repeated
	s.connect = func(l link) call {
		config := &stripe.BackendConfig{
			URL: &l.url, HTTPClient: &http.Client{Transport: l.rt}, LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
		}
		if l.page {
			config.MaxNetworkRetries = stripe.Int64(1)
		}
		bank := stripe.NewClient("sk_test_1", stripe.WithBackends(stripe.NewBackendsWithConfig(config)))
		return func(ctx context.Context, n int) error {
			params := &stripe.PaymentIntentCreateParams{Amount: stripe.Int64(500), Currency: stripe.String("eur")}
			params.SetIdempotencyKey(fmt.Sprint("order-", n))
			intent, err := bank.V1PaymentIntents.Create(ctx, params)
			if err == nil && intent.ID != "pi_1" {
				return fmt.Errorf("got %v", intent)
			}
			return err
		}
	}
	return s
}

// onceEach is the policy for SDKs whose own retry is the better one.
var onceEach = policy.Policy{Retry: policy.Retry{Attempts: 1}}

func awsConfig(l link) aws.Config {
	cfg := aws.Config{
		Region: "eu-central-1", Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
		HTTPClient: &http.Client{Transport: l.rt},
	}
	if l.module != nil {
		gabionaws.Configure(&cfg, l.module)
	}
	return cfg
}

// byModule is a call of the AWS SDK's through contrib/gabionaws, as docs/aws.md says.
func byModule(s *subject, worse []string) *subject {
	s.name, s.module, s.policy = s.name+" with gabionaws", true, policy.Policy{Retry: twice}
	s.worse.frugal, s.worse.asIs = worse, worse
	s.more.page, s.more.asIs = 0, 0
	return s
}

// twoFailuresOfTable are those of twoFailures that the SDK repeats without a code of throttling.
var twoFailuresOfTable = []string{"refused twice", "reset before the work, twice", "503 twice", "500 twice", "one of each"}

func failsXML(w http.ResponseWriter, status int) {
	code := "SlowDown"
	switch status {
	case 500:
		code = "InternalError"
	case 503:
		code = "ServiceUnavailable"
	case 0: // S3 has no 429
		status = 503
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>busy</Message></Error>`, code)
}

func denyXML(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(400)
	io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>RequestTimeout</Code><Message>slow</Message></Error>`)
}

// upload is too long for gabion to keep, and the SDK rewinds it.
var upload = bytes.Repeat([]byte("0123456789abcdef"), 200<<10/16)

func s3Put() *subject {
	s := &subject{name: "aws-sdk-go-v2 S3 PutObject", policy: onceEach, fails: failsXML, deny: denyXML}
	s.answer = func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Etag", `"e"`) }
	s.worse.asIs = []string{"refused twice"} // the SDK hears that gabion tried twice
	s.connect = func(l link) call {
		client := s3.NewFromConfig(awsConfig(l), func(o *s3.Options) { o.BaseEndpoint, o.UsePathStyle = &l.url, true })
		return func(ctx context.Context, _ int) error {
			_, err := client.PutObject(ctx, &s3.PutObjectInput{
				Bucket: aws.String("b"), Key: aws.String("k"), Body: bytes.NewReader(upload),
			})
			return err
		}
	}
	return s
}

func s3Get() *subject {
	s := &subject{name: "aws-sdk-go-v2 S3 GetObject", reads: true, policy: onceEach, fails: failsXML, deny: denyXML}
	s.answer = func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }
	s.throttle = func(w http.ResponseWriter, _ *http.Request) { failsXML(w, 0) }
	s.more.asIs = 1
	s.worse.asIs = []string{"refused twice", "reset before the work, twice"}
	s.connect = func(l link) call {
		client := s3.NewFromConfig(awsConfig(l), func(o *s3.Options) { o.BaseEndpoint, o.UsePathStyle = &l.url, true })
		return func(ctx context.Context, _ int) error {
			out, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("b"), Key: aws.String("k")})
			if err != nil {
				return err
			}
			defer out.Body.Close()
			_, err = io.ReadAll(out.Body)
			return err
		}
	}
	return s
}

func table() *subject {
	s := &subject{
		name: "aws-sdk-go-v2 DynamoDB UpdateItem", policy: onceEach,
		answer: says(`{}`, "Content-Type", "application/x-amz-json-1.0"),
		fails:  failsWith(`{"__type":"com.amazon.coral.service#InternalFailure","message":"busy"}`),
		deny: func(w http.ResponseWriter, _ *http.Request) {
			failsWith(`{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"slow down"}`)(w, 400)
		},
	}
	s.throttle, s.worse.asIs = s.deny, []string{"refused twice"}
	s.connect = func(l link) call {
		client := dynamodb.NewFromConfig(awsConfig(l), func(o *dynamodb.Options) { o.BaseEndpoint = &l.url })
		return func(ctx context.Context, _ int) error {
			_, err := client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
				TableName:        aws.String("accounts"),
				Key:              map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "7"}},
				UpdateExpression: aws.String("SET amount = :a"),
				ExpressionAttributeValues: map[string]types.AttributeValue{
					":a": &types.AttributeValueMemberN{Value: "5"},
				},
			})
			return err
		}
	}
	return s
}

// search goes through the transport of go-elasticsearch, which is what retries there; the
// client itself is a thousand packages.
func search() *subject {
	s := &subject{
		name: "go-elasticsearch _search", reads: true, policy: policy.Policy{Safe: true, Retry: twice},
		answer: says(`{"hits":{"total":{"value":1}}}`),
		fails:  failsWith(`{"error":"busy"}`),
	}
	s.more.asIs = 1 // two, and three of its own
	s.worse.frugal = []string{"refused twice", "reset before the work, twice", "503 twice", "one of each"}
	s.connect = func(l link) call {
		u, err := url.Parse(l.url)
		if err != nil {
			return func(context.Context, int) error { return err }
		}
		client, err := elastictransport.New(elastictransport.Config{URLs: []*url.URL{u}, Transport: l.rt, DisableRetry: l.page})
		return func(ctx context.Context, _ int) error {
			if err != nil {
				return err
			}
			req, err := http.NewRequestWithContext(ctx, "POST", "/_search", strings.NewReader(`{"query":{}}`))
			if err != nil {
				return err
			}
			resp, err := client.Perform(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode >= 400 {
				return fmt.Errorf("got %s", resp.Status)
			}
			var found map[string]any
			return json.NewDecoder(resp.Body).Decode(&found)
		}
	}
	return s
}

// overResty makes a request of resty's and decodes what comes.
func overResty(client *resty.Client, url, method, body string) call {
	return func(ctx context.Context, _ int) error {
		var item struct{ Name string }
		r := client.R().SetContext(ctx).SetResult(&item)
		if body != "" {
			r.SetBody(body)
		}
		resp, err := r.Execute(method, url+"/items/7")
		switch {
		case err != nil:
			return err
		case resp.IsError():
			return fmt.Errorf("got %s", resp.Status())
		case item.Name != "kettle":
			return fmt.Errorf("got %v", item)
		}
		return nil
	}
}

// mute is a logger for resty, which tells of every repetition.
type mute struct{}

func (mute) Errorf(string, ...any) {}
func (mute) Warnf(string, ...any)  {}
func (mute) Debugf(string, ...any) {}

// restyGet is GET, as it comes or with the given number of repetitions, which resty makes of errors and
// of answers that break off, but not of statuses.
func restyGet(repeats int) *subject {
	s := &subject{
		name: "resty GET", reads: true,
		answer: says(`{"name":"kettle"}`), fails: failsWith(`{}`),
	}
	if repeats > 0 {
		s.name, s.policy.Retry = fmt.Sprintf("resty GET, SetRetryCount(%d)", repeats), twice
		s.more.page, s.more.asIs = 1, 1
	}
	s.connect = func(l link) call {
		client := resty.New().SetTransport(l.rt).SetLogger(mute{}).SetRetryCount(repeats)
		if l.page {
			client.SetRetryCount(min(repeats, 1))
		}
		return overResty(client, l.url, "GET", "")
	}
	return s
}

func restyPost() *subject {
	s := &subject{name: "resty POST", answer: says(`{"name":"kettle"}`), fails: failsWith(`{}`)}
	s.connect = func(l link) call {
		return overResty(resty.New().SetTransport(l.rt).SetLogger(mute{}), l.url, "POST", `{"name":"kettle"}`)
	}
	return s
}
