package gabionaws_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/contrib/gabionaws"
	"github.com/gabion-go/gabion/policy"
)

// service is a mock of an AWS service: a real HTTP server that answers as a service does.
type service struct {
	plan []http.HandlerFunc // one for each attempt; the last is for all that follow

	mu     sync.Mutex
	asked  []*http.Request
	bodies []string
	url    string
	base   *http.Transport
}

func serve(t testing.TB, plan ...http.HandlerFunc) *service {
	s := &service{plan: plan, base: &http.Transport{DisableKeepAlives: true}}
	server := httptest.NewServer(s)
	s.url = server.URL
	t.Cleanup(server.Close)
	t.Cleanup(s.base.CloseIdleConnections)
	return s
}

// ServeHTTP implements http.Handler.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	answer := s.plan[min(len(s.asked), len(s.plan)-1)]
	s.asked = append(s.asked, r)
	s.bodies = append(s.bodies, string(body))
	s.mu.Unlock()
	answer(w, r)
}

// attempts is how many requests came.
func (s *service) attempts() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.asked) }

func (s *service) headers(name string) (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.asked {
		all = append(all, r.Header.Get(name))
	}
	return all
}

// config is that of a program that uses gabion.
func (s *service) config(d *gabion.Dependency, opts ...gabionaws.Option) aws.Config {
	cfg := aws.Config{
		Region: "eu-central-1", BaseEndpoint: &s.url,
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
		HTTPClient:  &http.Client{Transport: s.base},
	}
	if d != nil {
		gabionaws.Configure(&cfg, d, opts...)
	}
	return cfg
}

func (s *service) s3(d *gabion.Dependency) *s3.Client {
	return s3.NewFromConfig(s.config(d), func(o *s3.Options) { o.UsePathStyle = true })
}

// quick has two re-sends for a new client, and short waits.
func quick() policy.Policy {
	return policy.Policy{Retry: policy.Retry{
		Backoff: backoff.Full(time.Millisecond, 5*time.Millisecond), Budget: policy.Budget{Start: 2, Reserve: 2},
	}}
}

func text(status int, kind, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("X-Amzn-Requestid", "request-7")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// fine is an answer of DynamoDB's and of SQS's.
func fine(w http.ResponseWriter, r *http.Request) {
	text(200, "application/x-amz-json-1.0", `{}`)(w, r)
}

// fails is an error of DynamoDB's or of SQS's.
func fails(status int, code string, header ...string) http.HandlerFunc {
	return text(status, "application/x-amz-json-1.0", `{"__type":"com.amazonaws#`+code+`","message":"no"}`, header...)
}

// failsS3 is an error of S3's.
func failsS3(status int, code string) http.HandlerFunc {
	return text(status, "application/xml", `<?xml version="1.0"?><Error><Code>`+code+`</Code><Message>no</Message></Error>`)
}

// reset breaks the connection off.
func reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}

var item = map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "7"}}

func put() *dynamodb.PutItemInput {
	return &dynamodb.PutItemInput{TableName: aws.String("accounts"), Item: item}
}

func update(expression string) *dynamodb.UpdateItemInput {
	return &dynamodb.UpdateItemInput{
		TableName: aws.String("accounts"), Key: item, UpdateExpression: &expression,
		ExpressionAttributeValues: map[string]types.AttributeValue{":a": &types.AttributeValueMemberN{Value: "5"}},
	}
}

func message(queue string) *sqs.SendMessageInput {
	return &sqs.SendMessageInput{QueueUrl: aws.String("https://sqs/1/" + queue), MessageBody: aws.String("hello")}
}

// nothingHeld fails the test if a slot or a stream was left behind.
func nothingHeld(t testing.TB, d *gabion.Dependency) {
	t.Helper()
	if st := d.Stats(); st.Bulkhead.InUse != 0 || st.Streams != 0 {
		t.Errorf("%d slots are taken, %d streams are open", st.Bulkhead.InUse, st.Streams)
	}
}
