// Everything that reads what a stranger sends, on 10,000 damaged inputs that are the same in every
// run: no crash, one clear error, and nobody is believed who would not be without the damage. With
// sanitizers (preset asan) it is sharper.
#include <functional>

#include <openssl/pem.h>

#include "base/prng.h"
#include "identity/api_token.h"
#include "identity/identity_test_util.h"
#include "identity/join_token.h"
#include "identity/openssl.h"
#include "identity/renewal.h"

namespace shoal::identity {
namespace {

constexpr int kMutations = 10'000;
constexpr std::size_t kErrorMost = 400;

std::string insert_some(std::string text, Prng& prng) {
  std::string some(1 + prng.below(16), '\0');
  for (char& c : some) c = static_cast<char>(prng.next());
  return text.insert(prng.below(text.size() + 1), some);
}

// One damage to an input: of the kinds that lines, disks and people make.
std::string damage(std::string text, const std::string& other, Prng& prng) {
  constexpr std::string_view kTelling("\0\x01\x7f\x80\xff\n\r .-=/%0\"", 15);
  if (text.empty()) return insert_some(text, prng);
  const std::size_t at = prng.below(text.size());
  const std::size_t length = 1 + prng.below(std::min<std::size_t>(text.size() - at, 64));
  switch (prng.below(8)) {
    case 0:
      text[at] = static_cast<char>(text[at] ^ (1 << prng.below(8)));
      return text;
    case 1:
      text[at] = kTelling[prng.below(kTelling.size())];
      return text;
    case 2:
      return text.erase(at, length);
    case 3:
      return text.insert(at, text.substr(at, length));
    case 4:
      return insert_some(std::move(text), prng);
    case 5:
      return text.substr(0, at);
    case 6:
      return text.substr(0, at) + other.substr(std::min(at, other.size()));
    default:
      return text + text;
  }
}

// One to four damages.
std::string mutate(const std::string& text, const std::string& other, Prng& prng) {
  std::string mutated = text;
  for (std::uint64_t i = prng.below(4) + 1; i > 0; --i) mutated = damage(mutated, other, prng);
  return mutated;
}

std::string der_of(const std::string& pem) {
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  char *name = nullptr, *header = nullptr;
  unsigned char* der = nullptr;
  long size = 0;
  if (PEM_read_bio(bio.get(), &name, &header, &der, &size) != 1) return "";
  std::string bytes(reinterpret_cast<const char*>(der), static_cast<std::size_t>(size));
  OPENSSL_free(name);
  OPENSSL_free(header);
  OPENSSL_free(der);
  return bytes;
}

std::string pem_of(const char* name, const std::string& der) {
  const ErrorScope errors;  // of nothing there is no PEM
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio(bio.get(), name, "", reinterpret_cast<const unsigned char*>(der.data()),
                static_cast<long>(der.size()));
  char* text = nullptr;
  const auto size = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, static_cast<std::size_t>(size));
}

void expect_clear(const Error& error) {
  const std::string text = to_string(error);
  EXPECT_FALSE(error.message.empty() || error.field.empty() || error.remedy.empty()) << text;
  EXPECT_LT(text.size(), kErrorMost) << text;
  for (const char c : text) EXPECT_TRUE(c >= ' ' && c <= '~') << text;
}

// A kind of input: valid examples, and what is done with a damaged one. Says whether it was taken.
struct Reader {
  const char* name;
  std::vector<std::string> examples;
  std::function<bool(const std::string&)> read;
};

template <typename T>
bool taken(const Result<T>& result) {
  if (!result) expect_clear(result.error());
  EXPECT_EQ(ERR_peek_error(), 0u);
  return result.ok();
}

// A text that is taken is the one text of what was read.
template <typename Parse>
Reader text_reader(const char* name, std::vector<std::string> examples, Parse parse) {
  return {name, std::move(examples), [parse](const std::string& text) {
            const auto parsed = parse(text);
            if (!taken(parsed)) return false;
            EXPECT_EQ(to_string(*parsed), text);
            return true;
          }};
}

// A cluster, and what damaged inputs are held against.
struct World : Cluster {
  PrivateKey key = PrivateKey::make();
  SigningRequest request = request_of(key);
  Certificate own = *ca.issue_agent(request, AgentId(7), kNoon);
  std::string proof = prove_old_key(key, name, request);

  // A name that is believed is one that the CA has signed.
  bool look_at(const Certificate& certificate) const {
    certificate.serial();
    certificate.is_authority();
    taken(certificate.name());
    const PeerVerdict verdict = verify(certificate, any_agent());
    if (!verdict.ok()) {
      expect_clear(to_error(verdict, any_agent()));
    } else {
      EXPECT_EQ(verdict.name, (PeerName{name, AgentId(7)}));
      EXPECT_EQ(certificate.key_fingerprint(), key.public_fingerprint());
    }
    verify_pinned({certificate, certificate}, certificate.fingerprint(), kNoon, any_agent());
    decide_return({{certificate}, request, proof}, ca.roots(kNoon), {}, name, kNoon);
    return true;
  }

  Reader certificate_der() const {
    return {"certificate", {own.der(), ca.certificate().der()}, [this](const std::string& der) {
              const auto read = Certificate::from_der(der);
              return taken(read) && look_at(*read);
            }};
  }
  Reader certificate_pem() const {
    return {"chain", {to_pem(shown(own)), own.pem()}, [this](const std::string& pem) {
              const auto read = Certificate::parse_chain(pem);
              return taken(read) && look_at(read->front());
            }};
  }
  bool take_request(const std::string& pem) const {
    const auto read = SigningRequest::parse(pem);
    if (!taken(read)) return false;
    EXPECT_EQ(read->key_fingerprint(), key.public_fingerprint());
    return true;
  }
  Reader request_pem() const {
    return {"request", {make_request(key)}, [this](const std::string& pem) {
              return take_request(pem);
            }};
  }
  Reader request_der() const {
    return {"request in DER", {der_of(make_request(key))}, [this](const std::string& der) {
              return take_request(pem_of("CERTIFICATE REQUEST", der));
            }};
  }
  Reader key_pem() const {
    return {"key", {key.pem()}, [](const std::string& pem) {
              const auto read = PrivateKey::parse(pem);
              if (taken(read)) has_signed(read->get(), "bytes", read->sign("bytes"));
              return taken(PrivateKey::parse_given(pem));
            }};
  }
  Reader key_der() const {
    return {"key in DER", {der_of(key.pem())}, [](const std::string& der) {
              return taken(PrivateKey::parse(pem_of("PRIVATE KEY", der)));
            }};
  }
  Reader signature() const {
    return {"signature", {proof}, [this](const std::string& bytes) {
              const ReturnClaim claim{{own}, request, bytes};
              const auto verdict = decide_return(claim, ca.roots(kNoon), {}, name, kNoon);
              if (!verdict.ok()) expect_clear(to_error(verdict, name));
              return verdict.ok();
            }};
  }
};

std::vector<Reader> text_readers(const World& world) {
  const Hash256 ca = world.ca.fingerprint();
  const auto join = make_join_token(JoinTokenId(5), ca, 1, hours(1), kNoon);
  const auto api = make_api_token(ApiTokenId(3), "ana", {Scope::kAdmin}, hours(1), kNoon);
  const auto parse_set = [](const std::string& text) -> Result<ScopeSet> {
    auto scopes = parse_scopes(text);
    // A set may be written in any order.
    return scopes && to_string(*scopes) != text ? parse_scopes("") : scopes;
  };
  return {text_reader("join token", {to_string(join->token)}, parse_join_token),
          text_reader("API token", {to_string(api->token)}, parse_api_token),
          text_reader("scopes", {"admin,viewer", "metrics"}, parse_set),
          text_reader("name",
                      {to_string(PeerName{world.name, kReplica}),
                       to_string(PeerName{world.name, AgentId(7)}),
                       to_string(PeerName{world.name, CoordinatorName()})},
                      parse_name)};
}

TEST(Mutations, OneClearErrorAndNobodyIsBelieved) {
  const World world;
  std::vector<Reader> readers = {
      world.certificate_der(), world.certificate_pem(), world.request_pem(), world.request_der(),
      world.key_pem(),         world.key_der(),         world.signature()};
  for (Reader& reader : text_readers(world)) readers.push_back(std::move(reader));
  std::vector<int> refused(readers.size());
  Prng prng(20);
  for (int i = 0; i < kMutations && !testing::Test::HasFailure(); ++i) {
    const std::size_t kind = static_cast<std::size_t>(i) % readers.size();
    const Reader& reader = readers[kind];
    const auto& examples = reader.examples;
    const std::string& example = examples[prng.below(examples.size())];
    SCOPED_TRACE(std::string(reader.name) + ", mutation " + std::to_string(i));
    ASSERT_TRUE(i >= static_cast<int>(readers.size()) || reader.read(example));
    if (!reader.read(mutate(example, examples[prng.below(examples.size())], prng))) ++refused[kind];
  }
  // Damage is found nearly always; where it is not, it was to a part that says nothing.
  for (std::size_t i = 0; i < readers.size(); ++i) {
    EXPECT_GT(refused[i], kMutations / static_cast<int>(readers.size()) / 10) << readers[i].name;
  }
}

}  // namespace
}  // namespace shoal::identity
