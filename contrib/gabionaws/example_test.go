package gabionaws_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionaws"
	"github.com/gabion-go/gabion/policy"
)

// busyOnce is a mock of DynamoDB that throttles the first request, as it does with a 400.
func busyOnce() (cfg aws.Config, stop func()) {
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		if n++; n == 1 {
			w.WriteHeader(400)
			fmt.Fprint(w, `{"__type":"ProvisionedThroughputExceededException"}`)
			return
		}
		fmt.Fprint(w, `{}`)
	}))
	return aws.Config{
		Region: "eu-central-1", BaseEndpoint: &s.URL, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
	}, s.Close
}

func ExampleConfigure() {
	cfg, stop := busyOnce() // in your program: config.LoadDefaultConfig(ctx)
	defer stop()
	cloud := gabion.New("aws", policy.Policy{})
	gabionaws.Configure(&cfg, cloud)

	table := dynamodb.NewFromConfig(cfg)
	_, err := table.PutItem(context.Background(), put())
	fmt.Println(err, cloud.Stats().Totals.Attempts)
	// Output: <nil> 2
}

func ExampleMiddleware() {
	cfg, stop := busyOnce()
	defer stop()
	storage := gabion.New("storage", policy.Policy{})
	client := s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.APIOptions = append(o.APIOptions, gabionaws.Middleware(storage))
	})
	_, err := client.ListBuckets(context.Background(), nil)
	fmt.Println(gabion.ReasonOf(err) == policy.None, storage.Stats().Totals.Calls)
	// Output: false 1
}

func ExampleIdempotent() {
	cfg, stop := busyOnce()
	defer stop()
	// The receivers of these messages know an order again.
	gabionaws.Configure(&cfg, gabion.New("aws", policy.Policy{}), gabionaws.Idempotent("SQS.SendMessage"))
	_, err := sqs.NewFromConfig(cfg).SendMessage(context.Background(), message("orders"))
	fmt.Println(err)
	// Output: <nil>
}

func ExampleWithOptions() {
	cfg, stop := busyOnce()
	defer stop()
	gabionaws.Configure(&cfg, gabion.New("aws", policy.Policy{}))
	ctx := gabionaws.WithOptions(context.Background(), gabion.WithoutRetry())
	_, err := dynamodb.NewFromConfig(cfg).PutItem(ctx, put())
	fmt.Println(gabion.EffectOf(err))
	// Output: none
}
