#include "identity/tls_context.h"

#include <string>
#include <utility>

#include <openssl/ssl.h>

#include "base/overloaded.h"
#include "identity/asio_ssl.h"
#include "identity/issue.h"
#include "identity/openssl.h"

namespace shoal::identity {
namespace {

namespace ssl = boost::asio::ssl;

constexpr long kChainBytesMax = 32 << 10;  // of what a peer may send before it is known
// AES with 128 bits first: it costs a third less where there is AES in hardware.
constexpr char kCiphers[] =
    "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384";
constexpr char kGroups[] = "X25519:P-256";

// Belongs to a context.
struct Rules {
  std::variant<std::shared_ptr<const Trust>, Hash256> trust;
  ExpectedPeer expected;
  Clock clock;
};

// Belongs to a connection.
struct Connection {
  std::optional<ExpectedPeer> expected;
  std::optional<PeerVerdict> verdict;  // none before a certificate was looked at
};

template <typename T>
void delete_data(void*, void* data, CRYPTO_EX_DATA*, int, long, void*) {
  delete static_cast<T*>(data);
}

int rules_index() {
  static const int index =
      SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, delete_data<Rules>);
  return index;
}

int connection_index() {
  static const int index =
      SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, delete_data<Connection>);
  return index;
}

const Connection* connection_of(const SSL* ssl) {
  return static_cast<const Connection*>(SSL_get_ex_data(ssl, connection_index()));
}

Connection& make_connection(SSL* ssl) {
  auto* connection = static_cast<Connection*>(SSL_get_ex_data(ssl, connection_index()));
  if (connection == nullptr) {
    connection = new Connection;
    must(SSL_set_ex_data(ssl, connection_index(), connection));
  }
  return *connection;
}

const Rules& rules_of(const SSL* ssl) {
  return *static_cast<const Rules*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), rules_index()));
}

const ExpectedPeer& expected_of(const SSL* ssl, const Connection& connection) {
  return connection.expected ? *connection.expected : rules_of(ssl).expected;
}

// Which alert the other side gets.
int alert_code(PeerFault fault) {
  switch (fault) {
    case PeerFault::kNone:
      return X509_V_OK;
    case PeerFault::kExpired:
      return X509_V_ERR_CERT_HAS_EXPIRED;
    case PeerFault::kNotYetValid:
      return X509_V_ERR_CERT_NOT_YET_VALID;
    case PeerFault::kForeignCa:
      return X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY;
    case PeerFault::kBadSignature:
      return X509_V_ERR_CERT_SIGNATURE_FAILURE;
    case PeerFault::kRevoked:
      return X509_V_ERR_CERT_REVOKED;
    default:
      return X509_V_ERR_APPLICATION_VERIFICATION;
  }
}

std::vector<Certificate> chain_of(X509_STORE_CTX* context) {
  std::vector<Certificate> chain;
  X509* own = X509_STORE_CTX_get0_cert(context);
  if (own == nullptr) return chain;
  chain.push_back(Certificate::share(own));
  // OpenSSL lists the peer's own certificate among them, too.
  STACK_OF(X509)* sent = X509_STORE_CTX_get0_untrusted(context);
  for (int i = 0; i < sk_X509_num(sent); ++i) {
    X509* each = sk_X509_value(sent, i);
    if (each != own) chain.push_back(Certificate::share(each));
  }
  return chain;
}

int verify(X509_STORE_CTX* context, void*) {
  auto* ssl =
      static_cast<SSL*>(X509_STORE_CTX_get_ex_data(context, SSL_get_ex_data_X509_STORE_CTX_idx()));
  const Rules& rules = rules_of(ssl);
  Connection& connection = make_connection(ssl);
  const ExpectedPeer& expected = expected_of(ssl, connection);
  const std::vector<Certificate> chain = chain_of(context);
  const Instant now = rules.clock();
  connection.verdict = std::visit(
      Overloaded{[&](const std::shared_ptr<const Trust>& trust) {
                   const auto beliefs = trust->get();
                   return verify_peer(chain, beliefs->roots, beliefs->revoked, now, expected);
                 },
                 [&](const Hash256& pin) { return verify_pinned(chain, pin, now, expected); }},
      rules.trust);
  X509_STORE_CTX_set_error(context, alert_code(connection.verdict->fault));
  return connection.verdict->ok() ? 1 : 0;
}

Status set_credentials(SSL_CTX* context, const Credentials& own) {
  const ErrorScope errors;
  if (SSL_CTX_use_certificate(context, own.certificate.get()) != 1 ||
      SSL_CTX_use_PrivateKey(context, own.key.get()) != 1) {
    return Error{Code::kInvalidArgument, "the key is not the one of the certificate", "certificate",
                 "use the key that the certificate was requested with"};
  }
  for (const Certificate& each : own.chain) must(SSL_CTX_add1_chain_cert(context, each.get()));
  return {};
}

void set_protocol(SSL_CTX* context) {
  must(SSL_CTX_set_ciphersuites(context, kCiphers));
  must(static_cast<int>(SSL_CTX_set1_groups_list(context, kGroups)));
  SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE);
  // A certificate's chain is what we were given; idle connections hold no buffers.
  SSL_CTX_set_mode(context, SSL_MODE_NO_AUTO_CHAIN | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_max_cert_list(context, kChainBytesMax);
}

void forbid_resumption(SSL_CTX* context) {
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  must(SSL_CTX_set_num_tickets(context, 0));
}

void set_rules(SSL_CTX* context, Rules rules) {
  const auto* trust = std::get_if<std::shared_ptr<const Trust>>(&rules.trust);
  SHOAL_CHECK(rules.clock && (trust == nullptr || *trust != nullptr));
  must(SSL_CTX_set_ex_data(context, rules_index(), new Rules(std::move(rules))));
  SSL_CTX_set_cert_verify_callback(context, verify, nullptr);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  forbid_resumption(context);
}

Error refused_by_other(const char* why, const char* remedy) {
  return {Code::kUnauthenticated, std::string("the other side refused us: ") + why, "certificate",
          remedy};
}

// What the alert of the other side means; nothing when it was none.
std::optional<Error> alert_error(int reason) {
  constexpr char kRenew[] = "renew the certificate, and check the clocks of both hosts";
  constexpr char kRejoin[] = "let the agent join again with a new token";
  switch (reason) {
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
      return refused_by_other("our certificate has expired by its clock", kRenew);
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
      return refused_by_other("our certificate was revoked", kRejoin);
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
      return refused_by_other("it does not know the CA of our certificate",
                              "is this the right address? Else join again with a new token");
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      return refused_by_other("it wants a certificate", kRejoin);
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
      return refused_by_other("our certificate is damaged, or not valid yet by its clock", kRenew);
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
      return refused_by_other("it expects another peer",
                              "ignore this if the view has just changed; else see its log");
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
      return refused_by_other("the versions of TLS differ", "both sides need TLS 1.3");
    default:
      return std::nullopt;
  }
}

}  // namespace

Result<std::shared_ptr<ssl::context>> make_tls_context(const TlsRole& role, Clock clock) {
  const bool serves = !std::holds_alternative<Client>(role);
  auto context = std::make_shared<ssl::context>(serves ? ssl::context::tlsv13_server
                                                       : ssl::context::tlsv13_client);
  SSL_CTX* made = context->native_handle();
  set_protocol(made);
  const Credentials* own = std::visit(
      Overloaded{[](const Client& client) { return client.own ? &*client.own : nullptr; },
                 [](const auto& server) { return &server.own; }},
      role);
  if (own != nullptr) {
    if (const Status set = set_credentials(made, *own); !set) return set.error();
  }
  if (const auto* server = std::get_if<MutualServer>(&role)) {
    set_rules(made, {server->trust, server->expected, std::move(clock)});
  } else if (const auto* client = std::get_if<Client>(&role)) {
    set_rules(made, {client->trust, client->expected, std::move(clock)});
  }
  return context;
}

void expect_peer(SSL* connection, const ExpectedPeer& expected) {
  make_connection(connection).expected = expected;
  if (!expected.host || SSL_is_server(connection) == 1 || is_ip_address(*expected.host)) return;
  if (is_host(*expected.host)) {
    must(static_cast<int>(SSL_set_tlsext_host_name(connection, expected.host->c_str())));
  }
}

PeerVerdict verdict_of(const SSL* connection) {
  const Connection* found = connection_of(connection);
  return found == nullptr ? PeerVerdict() : found->verdict.value_or(PeerVerdict());
}

std::optional<RefusalReason> refusal_of(const SSL* connection, unsigned long openssl_error) {
  const Connection* found = connection_of(connection);
  if (found != nullptr && found->verdict && !found->verdict->ok()) {
    return reason_of(found->verdict->fault);
  }
  if (ERR_GET_LIB(openssl_error) != ERR_LIB_SSL) return RefusalReason::kMalformed;
  const int reason = ERR_GET_REASON(openssl_error);
  if (alert_error(reason)) return std::nullopt;
  const bool shows_none = reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE;
  return shows_none ? RefusalReason::kNoCertificate : RefusalReason::kMalformed;
}

Error handshake_error(const SSL* connection, unsigned long openssl_error) {
  const Connection* found = connection_of(connection);
  if (found != nullptr && found->verdict && !found->verdict->ok()) {
    return to_error(*found->verdict, expected_of(connection, *found));
  }
  const int reason = ERR_GET_REASON(openssl_error);
  if (ERR_GET_LIB(openssl_error) == ERR_LIB_SSL) {
    if (auto alert = alert_error(reason)) return *alert;
    if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) return to_error(PeerVerdict(), {});
    if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST) {
      return {Code::kUnavailable, "the other side does not speak TLS", "address",
              "is this the right port?"};
    }
  }
  const char* text = openssl_error == 0 ? nullptr : ERR_reason_error_string(openssl_error);
  return {Code::kUnavailable,
          std::string("the TLS handshake failed: ") + (text == nullptr ? "the line broke" : text),
          "address", "is this the right address and port? Try again"};
}

}  // namespace shoal::identity
