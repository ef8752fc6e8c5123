package gabionaws

import (
	"reflect"
	"strings"
)

// repeatable reports whether an operation may be repeated where an answer was lost.
func (s *settings) repeatable(service, operation string, input any) bool {
	if len(s.operations) > 0 {
		if safe, ok := s.operations[service+"."+operation]; ok {
			return safe
		}
	}
	check, listed := twice[service][operation]
	switch {
	case !listed:
		return true
	case check == nil:
		return false
	}
	v := reflect.Indirect(reflect.ValueOf(input))
	return v.Kind() == reflect.Struct && check(v)
}

// twice are the operations whose work is done twice if they are repeated, by service, with
// what makes a single one of them safe. Everything else is idempotent, carries a token that
// the SDK makes, or starts over what was left unfinished. That is the list to add to where a
// service does more.
var twice = map[string]map[string]func(input reflect.Value) bool{
	"SQS":                     {"SendMessage": deduplicated, "SendMessageBatch": deduplicated},
	"SNS":                     {"Publish": deduplicated, "PublishBatch": deduplicated},
	"DynamoDB":                {"UpdateItem": sets, "ExecuteStatement": selects, "BatchExecuteStatement": nil},
	"Lambda":                  {"Invoke": nil, "InvokeAsync": nil, "InvokeWithResponseStream": nil},
	"SFN":                     {"StartExecution": named, "StartSyncExecution": nil},
	"SES":                     {"SendEmail": nil, "SendRawEmail": nil, "SendTemplatedEmail": nil, "SendBulkTemplatedEmail": nil, "SendBounce": nil},
	"SESv2":                   {"SendEmail": nil, "SendBulkEmail": nil},
	"Kinesis":                 {"PutRecord": nil, "PutRecords": nil},
	"Firehose":                {"PutRecord": nil, "PutRecordBatch": nil},
	"EventBridge":             {"PutEvents": nil},
	"Pinpoint":                {"SendMessages": nil, "SendUsersMessages": nil},
	"IoT Data Plane":          {"Publish": nil},
	"ApiGatewayManagementApi": {"PostToConnection": nil},
	"CloudWatch":              {"PutMetricData": nil},
	"RDS Data":                {"ExecuteStatement": nil, "BatchExecuteStatement": nil, "ExecuteSql": nil},
	"SSM":                     {"SendCommand": nil},
	"Batch":                   {"SubmitJob": nil},
	"Glue":                    {"StartJobRun": nil},
}

// text is a field of an operation's input.
func text(input reflect.Value, field string) string {
	f := reflect.Indirect(input.FieldByName(field))
	if f.Kind() != reflect.String {
		return ""
	}
	return f.String()
}

// deduplicated reports whether a message goes where repetitions are recognised.
func deduplicated(input reflect.Value) bool {
	for _, to := range [...]string{"QueueUrl", "TopicArn"} {
		if strings.HasSuffix(text(input, to), ".fifo") {
			return true
		}
	}
	return false
}

// named reports whether an execution has a name, which there can be only one of.
func named(input reflect.Value) bool { return text(input, "Name") != "" }

// sets reports whether an update sets values that do not depend on what is there, or has a
// condition, which the second of two does not meet.
func sets(input reflect.Value) bool {
	if text(input, "ConditionExpression") != "" {
		return true
	}
	if f := input.FieldByName("AttributeUpdates"); f.IsValid() && f.Kind() == reflect.Map && f.Len() > 0 {
		return false // of the old kind, which can add
	}
	update := strings.ToUpper(text(input, "UpdateExpression"))
	if strings.ContainsAny(update, "+-") || strings.Contains(update, "LIST_APPEND") {
		return false
	}
	for _, word := range strings.Fields(update) {
		if word == "ADD" { // adding to a set can be repeated, adding to a number can't
			return false
		}
	}
	return true
}

// selects reports whether a PartiQL statement only reads.
func selects(input reflect.Value) bool {
	words := strings.Fields(text(input, "Statement"))
	return len(words) > 0 && strings.EqualFold(words[0], "SELECT")
}
