package gabionvet

import (
	"reflect"

	"golang.org/x/tools/go/analysis"
)

// The rules, by id. An id is never used again for another rule. G105, G106, G113, G114 and G117
// are left to other linters: see docs/vet.md.
var (
	rules = []rule{
		{"G101", "waitwithoutjitter", "a loop waits before it tries again, without jitter", waitWithoutJitter},
		{"G102", "loopwithoutbound", "a loop tries again until it succeeds, whatever that takes", loopWithoutBound},
		{"G103", "sleepdeaftocontext", "a loop sleeps between attempts and does not hear that its context ended", sleepDeafToContext},
		{"G104", "retrieseveryerror", "a loop with back-off repeats whatever the error is", retriesEveryError},
		{"G107", "clientwithouttimeout", "an http.Client without Timeout sends a request without a deadline", clientWithoutTimeout},
		{"G108", "bodynotclosed", "a loop tries again and leaves the body of an answer open", bodyNotClosed},
		{"G109", "bodynotdrained", "the body of an answer is closed and never read", bodyNotDrained},
		{"G110", "bodysenttwice", "attempts share one reader as their body", bodySentTwice},
		{"G111", "unsafewithoutkey", "a POST or an INSERT is repeated without an idempotency key", func(c *check) { sentElsewhere(c); unsafeWithoutKey(c) }},
		{"G112", "keyneweachattempt", "an idempotency key is made anew on every attempt", keyNewOnEachAttempt},
		{"G115", "workignorescontext", "work ignores the context that its retrier gives it", workIgnoresContext},
		{"G116", "twolayers", "two layers retry", twoLayers},
		{"G118", "deferinloop", "a loop defers what should end with each iteration", deferInLoop},
		{"G119", "transportpercall", "an http.Transport is made for each call", transportPerCall},
		{"G120", "dependencyperrequest", "a dependency, breaker or limiter is made for each request", dependencyPerRequest},
		{"G121", "contextlost", "context.Background drops the context that is at hand", contextLost},
		{"G123", "retryintransaction", "a statement is repeated inside its transaction", retryInTransaction},
		{"G124", "callintransaction", "work of a transaction calls another service", callInTransaction},
		{"G125", "serverwithouttimeouts", "an http.Server has no timeout for the header", serverWithoutTimeouts},
		{"G126", "repeatsrefusals", "a loop repeats answers from 400 to 499", repeatsRefusals},
		{"G127", "answernottaken", "a goroutine sends its result to where it may not be received", answerNotTaken},
		{"G128", "endedbeforeread", "an answer is read after its context was cancelled", endedBeforeRead},
		{"G129", "transactionleftopen", "a path leaves a transaction open", transactionLeftOpen},
		{"G130", "failurelost", "attempts all failed, and no error is returned", failureLost},
		{"G131", "requestoutlived", "a goroutine uses the request's context after the answer", requestOutlived},
		{"G132", "deadcontext", "a call is given a context that has ended", deadContext},
		{"G133", "triesatonce", "a loop tries many times without a wait", triesAtOnce},
		{"G134", "retryafterignored", "a loop repeats a 429 and does not read Retry-After", retryAfterIgnored},
		{"G135", "failurekept", "a sync.Once keeps the failure of its call for good", failureKept},
		{"G136", "statusnotread", "an answer is decoded and its status not read", statusNotRead},
		{"G137", "wrongunit", "a number of seconds or milliseconds becomes nanoseconds", wrongUnit},
		{"G138", "onetimeoutforall", "the timeout of one attempt spans all attempts", oneTimeoutForAll},
		{"G139", "waitwithoutcap", "a wait doubles without a cap while a loop tries without a bound", waitWithoutCap},
		{"G140", "ackedfirst", "a message is acknowledged before its work is done", ackedFirst},
		{"G141", "lockheldinretries", "a mutex is locked while attempts are repeated", lockHeldInRetries},
		{"G142", "addsagain", "repeated work adds to what the attempt before it left", addsAgain},
		{"G143", "triesopenbreaker", "what an open breaker refuses is repeated", triesOpenBreaker},
		{"G144", "breakerseesnothing", "a breaker takes a 503 for a success", breakerSeesNothing},
		{"G145", "slotlost", "a return keeps a slot or a lock that others give back", slotLost},
		{"G146", "lockwithoutend", "a lock in Redis never ends", lockWithoutEnd},
		{"G147", "requeuedforever", "a message that fails goes back to its queue at once, for ever", requeuedForever},
		{"G148", "wordsoferror", "the words of an error decide whether to try again", wordsOfError},
		{"G149", "allatonce", "each of many things is asked for by a goroutine of its own, all at once", allAtOnce},
		{"G150", "lockthroughpool", "a lock of a session or of rows is taken by a pool of connections", lockThroughPool},
		{"G151", "shutdownnotawaited", "an http.Server's Shutdown is not waited for", shutdownNotAwaited},
		{"G152", "pipeendsclean", "an io.Pipe ends clean after a failure", pipeEndsClean},
		{"G153", "workerends", "a failure ends a worker, and not only its job", workerEnds},
		{"G154", "partnotread", "which part of a batch has failed is not read", partNotRead},
		{"G155", "livesbyothers", "a liveness probe asks another service", livesByOthers},
		{"G190", "ignorewithoutreason", "an ignore has no reason, or names no rule", checkIgnores},
	}
	ofRules = analyzers(rules)
)

func analyzers(rules []rule) (all []*analysis.Analyzer) {
	for _, r := range rules {
		all = append(all, r.analyzer())
	}
	return all
}

// The analyzers, one for each rule. They are safe for concurrent use, as all analyzers are,
// and must not be changed.
var (
	WaitWithoutJitter     = ofRules[0]  // G101
	LoopWithoutBound      = ofRules[1]  // G102
	SleepDeafToContext    = ofRules[2]  // G103
	RetriesEveryError     = ofRules[3]  // G104
	ClientWithoutTimeout  = ofRules[4]  // G107
	BodyNotClosed         = ofRules[5]  // G108
	BodyNotDrained        = ofRules[6]  // G109
	BodySentTwice         = ofRules[7]  // G110
	UnsafeWithoutKey      = ofRules[8]  // G111
	KeyNewEachAttempt     = ofRules[9]  // G112
	WorkIgnoresContext    = ofRules[10] // G115
	TwoLayers             = ofRules[11] // G116
	DeferInLoop           = ofRules[12] // G118
	TransportPerCall      = ofRules[13] // G119
	DependencyPerRequest  = ofRules[14] // G120
	ContextLost           = ofRules[15] // G121
	RetryInTransaction    = ofRules[16] // G123
	CallInTransaction     = ofRules[17] // G124
	ServerWithoutTimeouts = ofRules[18] // G125
	RepeatsRefusals       = ofRules[19] // G126
	AnswerNotTaken        = ofRules[20] // G127
	EndedBeforeRead       = ofRules[21] // G128
	TransactionLeftOpen   = ofRules[22] // G129
	FailureLost           = ofRules[23] // G130
	RequestOutlived       = ofRules[24] // G131
	DeadContext           = ofRules[25] // G132
	TriesAtOnce           = ofRules[26] // G133
	RetryAfterIgnored     = ofRules[27] // G134
	FailureKept           = ofRules[28] // G135
	StatusNotRead         = ofRules[29] // G136
	WrongUnit             = ofRules[30] // G137
	OneTimeoutForAll      = ofRules[31] // G138
	WaitWithoutCap        = ofRules[32] // G139
	AckedFirst            = ofRules[33] // G140
	LockHeldInRetries     = ofRules[34] // G141
	AddsAgain             = ofRules[35] // G142
	TriesOpenBreaker      = ofRules[36] // G143
	BreakerSeesNothing    = ofRules[37] // G144
	SlotLost              = ofRules[38] // G145
	LockWithoutEnd        = ofRules[39] // G146
	RequeuedForever       = ofRules[40] // G147
	WordsOfError          = ofRules[41] // G148
	AllAtOnce             = ofRules[42] // G149
	LockThroughPool       = ofRules[43] // G150
	ShutdownNotAwaited    = ofRules[44] // G151
	PipeEndsClean         = ofRules[45] // G152
	WorkerEnds            = ofRules[46] // G153
	PartNotRead           = ofRules[47] // G154
	LivesByOthers         = ofRules[48] // G155
	IgnoreWithoutReason   = ofRules[49] // G190
)

// StaleIgnore reports ignores that no longer keep a rule from reporting: G191. It runs all
// rules to know.
var StaleIgnore = &analysis.Analyzer{
	Name:       "staleignore",
	Doc:        "G191: an ignore matches nothing any more",
	URL:        pages + "G191.md",
	Requires:   append([]*analysis.Analyzer{index}, ofRules...),
	ResultType: reflect.TypeFor[*used](),
	Run: func(pass *analysis.Pass) (any, error) {
		c := &check{unit: pass.ResultOf[index].(*unit), rule: rule{id: "G191"}, pass: pass, used: &used{}}
		staleIgnores(pass, c, rules, ofRules)
		return c.used, nil
	},
}

// Analyzers are all rules, in the order of their ids. It must not be changed.
var Analyzers = append(append([]*analysis.Analyzer(nil), ofRules...), StaleIgnore)
