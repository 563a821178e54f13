#include "identity/certificate.h"

#include <ctime>

#include <openssl/crypto.h>
#include <openssl/pem.h>

#include "identity/openssl.h"

namespace shoal::identity {
namespace {

using BytesPtr = Owned<unsigned char, [](unsigned char* bytes) { OPENSSL_free(bytes); }>;
using TextPtr = Owned<char, [](char* text) { OPENSSL_free(text); }>;

Error no_certificate(const std::string& what) {
  return {Code::kInvalidArgument, what, "certificate", "give certificates in PEM"};
}

int no_password(char*, int, int, void*) { return -1; }

// ASN1_TIME_to_tm() takes what RFC 5280 allows; a time that it does not know counts as long ago.
Instant instant_of(const ASN1_TIME* time) {
  std::tm parts{};
  if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1) return {};
  // Years beyond 2262 do not fit nanoseconds.
  constexpr std::int64_t kMost = INT64_MAX / 1'000'000'000;
  const std::int64_t unix_s = ::timegm(&parts);
  return Instant{(unix_s > kMost ? kMost : unix_s < 0 ? 0 : unix_s) * 1'000'000'000};
}

std::string_view view_of(const ASN1_STRING* string) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(string)),
          static_cast<std::size_t>(ASN1_STRING_length(string))};
}

}  // namespace

Certificate Certificate::share(X509* certificate) {
  must(X509_up_ref(certificate));
  return Certificate({certificate, X509_free});
}

Result<Certificate> Certificate::from_der(std::string_view der) {
  const ErrorScope errors;
  if (der.size() > kCertificateMax) return no_certificate("a certificate is too long");
  const auto* begin = reinterpret_cast<const unsigned char*>(der.data());
  const unsigned char* end = begin;
  X509Ptr read(d2i_X509(nullptr, &end, static_cast<long>(der.size())));
  if (!read || end != begin + der.size()) return no_certificate("the bytes are not a certificate");
  return Certificate({read.release(), X509_free});
}

Result<Certificate> Certificate::parse(std::string_view pem) {
  auto chain = parse_chain(pem);
  if (!chain) return chain.error();
  if (chain->size() != 1) return no_certificate("holds more than one certificate");
  return std::move(chain->front());
}

Result<std::vector<Certificate>> Certificate::parse_chain(std::string_view pem) {
  const ErrorScope errors;
  if (pem.size() > kChainTextMax) return no_certificate("the text is too long for certificates");
  const BioPtr bio(must_have(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))));
  std::vector<Certificate> chain;
  for (;;) {
    X509* read = PEM_read_bio_X509(bio.get(), nullptr, no_password, nullptr);
    if (read == nullptr) break;
    chain.push_back(Certificate({read, X509_free}));
    if (chain.size() > kChainMost) {
      return no_certificate("holds more than " + std::to_string(kChainMost) + " certificates");
    }
    if (chain.back().der().size() > kCertificateMax) {
      return no_certificate("a certificate is too long");
    }
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (!at_end) return no_certificate("a certificate is damaged");
  if (chain.empty()) return no_certificate("holds no certificate in PEM");
  return chain;
}

std::string Certificate::pem() const {
  const BioPtr bio(must_have(BIO_new(BIO_s_mem())));
  must(PEM_write_bio_X509(bio.get(), get()));
  char* text = nullptr;
  const auto size = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, static_cast<std::size_t>(size));
}

std::string Certificate::der() const {
  unsigned char* bytes = nullptr;
  const int size = i2d_X509(get(), &bytes);
  must(size);
  const BytesPtr owner(bytes);
  return {reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)};
}

Hash256 Certificate::fingerprint() const { return sha256(der()); }

Hash256 Certificate::key_fingerprint() const {
  const X509_PUBKEY* key = X509_get_X509_PUBKEY(get());
  unsigned char* bytes = nullptr;
  const int size = i2d_X509_PUBKEY(key, &bytes);
  must(size);
  const BytesPtr owner(bytes);
  return sha256({reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)});
}

std::string Certificate::serial() const {
  const ASN1_INTEGER* serial = X509_get0_serialNumber(get());
  if (ASN1_STRING_length(serial) > 20) return "too long";  // no such serial is ours
  const NumberPtr number(must_have(ASN1_INTEGER_to_BN(serial, nullptr)));
  const TextPtr text(must_have(BN_bn2hex(number.get())));
  std::string hex = text.get();
  for (char& c : hex) c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  return hex;
}

Instant Certificate::not_before() const { return instant_of(X509_get0_notBefore(get())); }
Instant Certificate::not_after() const { return instant_of(X509_get0_notAfter(get())); }

bool Certificate::is_authority() const {
  const ErrorScope errors;
  return X509_check_ca(get()) == 1 && (X509_get_key_usage(get()) & KU_KEY_CERT_SIGN) != 0;
}

bool Certificate::is_signed_by(const Certificate& ca) const {
  const ErrorScope errors;
  EVP_PKEY* key = ca.public_key();
  return key != nullptr && X509_verify(get(), key) == 1;
}

Result<PeerName> Certificate::name() const {
  const ErrorScope errors;
  const NamesPtr names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(get(), NID_subject_alt_name, nullptr, nullptr)));
  const Error none{Code::kInvalidArgument, "the certificate does not name one member of a cluster",
                   "certificate", "use a certificate that this cluster's coordinator issued"};
  if (!names) return none;
  const ASN1_STRING* uri = nullptr;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    if (uri != nullptr) return none;
    uri = name->d.uniformResourceIdentifier;
  }
  return uri == nullptr ? Result<PeerName>(none) : parse_name(view_of(uri));
}

EVP_PKEY* Certificate::public_key() const {
  const ErrorScope errors;
  return X509_get0_pubkey(get());
}

std::string to_pem(const std::vector<Certificate>& chain) {
  std::string pem;
  for (const Certificate& certificate : chain) pem += certificate.pem();
  return pem;
}

std::string to_utc(Instant instant) {
  const std::time_t unix_s = instant.unix_ms() / 1000;
  std::tm parts{};
  ::gmtime_r(&unix_s, &parts);
  char text[32] = {};
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

}  // namespace shoal::identity
