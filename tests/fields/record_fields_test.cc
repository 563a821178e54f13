// Every field of every listed struct of the coordinator and of identities counts in the digest:
// records, rows of the store, and answers.
#include "base/field_flips_test_util.h"
#include "coordinator/core/records/submitted_text.h"
#include "coordinator/core/state/durable_state.h"
#include "coordinator/service/http/answers/agent_answers.h"
#include "coordinator/service/http/answers/file_answers.h"
#include "coordinator/service/http/answers/job_answers.h"
#include "coordinator/service/http/answers/machine_answers.h"
#include "coordinator/service/http/answers/people_answers.h"
#include "coordinator/service/http/answers/replica_answers.h"
#include "coordinator/service/http/answers/round_answers.h"
#include "coordinator/service/http/answers/space_answers.h"
#include "coordinator/store/file_rows.h"
#include "coordinator/store/machine_rows.h"
#include "coordinator/store/people_rows.h"
#include "identity/api_token.h"
#include "identity/join_token.h"
#include "job/job_rules.h"
#include "tests/fields/listed_structs_test_util.h"

namespace shoal::coordinator {
namespace {

TEST(RecordFields, EveryFieldOfEveryListedStructCounts) {
  FieldFlips flips;
  flips.flip_all_of<DurableState, EventRecord, SubmittedText>();
  flips.flip_all_of<identity::ApiTokenRecord, identity::JoinTokenRecord>();
  flips.flip_all_of<FileRecord, DatasetRecord, AuthorityRecord, MachineRecord, SessionRecord,
                    AuditRecord>();
  using namespace rest;
  flips.flip_all_of<JobProgressAnswer, JobAnswer, RoundAnswer, ReplicaAnswer, CheckpointAnswer,
                    SeriesAnswer, DeviceHistoryAnswer, AgentAnswer, EventAnswer, NewJoinTokenAnswer,
                    AuthorityAnswer, CertificateAnswer, PrincipalAnswer, NewApiTokenAnswer,
                    TicketAnswer, AuditAnswer, StoredFileAnswer, DatasetAnswer, ShardAnswer,
                    SpaceAnswer, JoinTokenAnswer, ApiTokenAnswer>();
  std::set<std::string> missing = listed_structs({"coordinator", "identity"});
  for (const std::string& name : flips.structs()) missing.erase(name);
  EXPECT_EQ(missing, std::set<std::string>{}) << "add them above";
}

}  // namespace
}  // namespace shoal::coordinator
