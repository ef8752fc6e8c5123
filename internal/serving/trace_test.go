package serving_test
import ("testing";"time";"github.com/gabion-go/gabion/internal/serving";"testing/synctest";"math/rand/v2";"sync")
func TestTrace(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct{p time.Duration; rate float64; w func(float64) time.Duration; ign bool}{{50*ms,2000,exactly(30*ms),true},{35*ms,2000,between(20*ms,40*ms),true},{25*ms,6500,exactly(30*ms),false},{1000*ms,2000,between(20*ms,40*ms),true}} {
	s := shop{workers:20, work: row.w, ignores: row.ign}
	synctest.Test(t, func(t *testing.T) {
		room := serving.Options{}.Open()
		workers := make(chan struct{}, s.workers)
		began := time.Now()
		var all sync.WaitGroup
		var ts [2]*tale
		for i, c := range []crowd{{rate:200,patience:2*time.Second},{rate:row.rate,patience:row.p}} {
			ts[i]=new(tale)
			all.Go(func() {
				draws := rand.New(rand.NewPCG(s.seed+1, uint64(i)))
				for time.Since(began)<60*time.Second {
					time.Sleep(time.Duration(draws.ExpFloat64() / c.rate * float64(time.Second)))
					took := s.work(draws.Float64())
					all.Go(func() { s.visit(room, workers, c, took, ts[i]) })
				}
			})
		}
		line:=""
		lc,la:=int64(0),int64(0)
		for range 60 { for range 4 { time.Sleep(250*ms); x:=room.Stats(); line+=" "+itoa(x.Limit) }
		 line+=" ["+itoa(int(100*(ts[0].answered.Load()-la)/max(ts[0].came.Load()-lc,1)))+"]"; lc,la=ts[0].came.Load(),ts[0].answered.Load() }
		t.Log(row.p, row.rate, line)
		all.Wait()
	})
	}
}
func itoa(n int) string { b:=""; for { b=string(rune('0'+n%10))+b; n/=10; if n==0 {return b} } }
