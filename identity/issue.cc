#include "identity/issue.h"

#include <array>

#include <arpa/inet.h>
#include <openssl/rand.h>

#include "identity/openssl.h"

namespace shoal::identity {
namespace {

constexpr std::size_t kHostMax = 253;  // RFC 1035

// 127 random bits: positive, never 0, and nobody can guess the next one.
void set_serial(X509* certificate) {
  std::array<unsigned char, 16> bytes;
  must(RAND_bytes(bytes.data(), bytes.size()));
  bytes[0] = static_cast<unsigned char>((bytes[0] & 0x7f) | 0x40);
  const NumberPtr number(must_have(BN_bin2bn(bytes.data(), bytes.size(), nullptr)));
  must_have(BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)));
}

void set_names(X509* certificate, const CertificatePlan& plan) {
  if (plan.subject != nullptr) {
    must(X509_set_subject_name(certificate, X509_get_subject_name(plan.subject->get())));
  } else {
    const auto* text = reinterpret_cast<const unsigned char*>(plan.common_name.data());
    must(X509_NAME_add_entry_by_NID(X509_get_subject_name(certificate), NID_commonName,
                                    MBSTRING_ASC, text, static_cast<int>(plan.common_name.size()),
                                    -1, 0));
  }
  const X509* issuer = plan.issuer != nullptr ? plan.issuer->get() : certificate;
  must(X509_set_issuer_name(certificate, X509_get_subject_name(issuer)));
}

void set_validity(X509* certificate, const Validity& validity) {
  must_have(ASN1_TIME_set(X509_getm_notBefore(certificate), validity.from.unix_ms() / 1000));
  must_have(ASN1_TIME_set(X509_getm_notAfter(certificate), validity.to.unix_ms() / 1000));
}

void add_extension(X509* certificate, int nid, void* value, bool critical) {
  must(X509_add1_ext_i2d(certificate, nid, value, critical ? 1 : 0, X509V3_ADD_DEFAULT));
}

// A cross certificate takes the identifier of its subject, which the certificates below it name.
bool copy_key_identifier(X509* certificate, const Certificate* subject) {
  if (subject == nullptr) return false;
  const int place = X509_get_ext_by_NID(subject->get(), NID_subject_key_identifier, -1);
  if (place < 0) return false;
  must(X509_add_ext(certificate, X509_get_ext(subject->get(), place), -1));
  return true;
}

// The key identifiers, by which OpenSSL finds the issuer among several.
void add_key_identifiers(X509* certificate, const CertificatePlan& plan) {
  X509V3_CTX context;
  X509* signer = plan.issuer != nullptr ? plan.issuer->get() : certificate;
  X509V3_set_ctx(&context, signer, certificate, nullptr, nullptr, 0);
  const auto add = [&](int nid, const char* value) {
    const Owned<X509_EXTENSION, X509_EXTENSION_free> extension(
        must_have(X509V3_EXT_conf_nid(nullptr, &context, nid, value)));
    must(X509_add_ext(certificate, extension.get(), -1));
  };
  if (!copy_key_identifier(certificate, plan.subject)) add(NID_subject_key_identifier, "hash");
  // A CA without an identifier of its key cannot be named by it.
  if (X509_get0_subject_key_id(signer) != nullptr) add(NID_authority_key_identifier, "keyid");
}

void add_basic_constraints(X509* certificate, const std::optional<int>& path_length) {
  const BasicConstraintsPtr constraints(must_have(BASIC_CONSTRAINTS_new()));
  if (path_length) {
    constraints->ca = 0xff;
    constraints->pathlen = must_have(ASN1_INTEGER_new());
    must(ASN1_INTEGER_set_int64(constraints->pathlen, *path_length));
  }
  add_extension(certificate, NID_basic_constraints, constraints.get(), true);
}

void add_key_usage(X509* certificate, bool is_authority) {
  constexpr int kDigitalSignature = 0, kKeyCertSign = 5, kCrlSign = 6;  // RFC 5280, 4.2.1.3
  const BitsPtr bits(must_have(ASN1_BIT_STRING_new()));
  if (is_authority) {
    must(ASN1_BIT_STRING_set_bit(bits.get(), kKeyCertSign, 1));
    must(ASN1_BIT_STRING_set_bit(bits.get(), kCrlSign, 1));
  } else {
    must(ASN1_BIT_STRING_set_bit(bits.get(), kDigitalSignature, 1));
  }
  add_extension(certificate, NID_key_usage, bits.get(), true);
}

GENERAL_NAME* name_of(int type, const std::string& text) {
  GENERAL_NAME* name = must_have(GENERAL_NAME_new());
  ASN1_STRING* value = must_have(ASN1_IA5STRING_new());
  must(ASN1_STRING_set(value, text.data(), static_cast<int>(text.size())));
  GENERAL_NAME_set0_value(name, type, value);
  return name;
}

GENERAL_NAME* name_of_host(const std::string& host) {
  if (!is_ip_address(host)) return name_of(GEN_DNS, host);
  GENERAL_NAME* name = must_have(GENERAL_NAME_new());
  GENERAL_NAME_set0_value(name, GEN_IPADD, must_have(a2i_IPADDRESS(host.c_str())));
  return name;
}

// The coordinator only serves; agents and replicas call each other in both directions.
void add_extended_usage(X509* certificate, bool only_serves) {
  const UsagesPtr usages(must_have(sk_ASN1_OBJECT_new_null()));
  must(sk_ASN1_OBJECT_push(usages.get(), OBJ_nid2obj(NID_server_auth)));
  if (!only_serves) must(sk_ASN1_OBJECT_push(usages.get(), OBJ_nid2obj(NID_client_auth)));
  add_extension(certificate, NID_ext_key_usage, usages.get(), false);
}

void add_member(X509* certificate, const MemberPart& member) {
  const NamesPtr names(must_have(GENERAL_NAMES_new()));
  must(sk_GENERAL_NAME_push(names.get(), name_of(GEN_URI, to_string(member.name))));
  for (const std::string& host : member.hosts) {
    must(sk_GENERAL_NAME_push(names.get(), name_of_host(host)));
  }
  add_extension(certificate, NID_subject_alt_name, names.get(), false);
  add_extended_usage(certificate, kind_of(member.name) == PeerKind::kCoordinator);
}

bool is_label(std::string_view label) {
  if (label.empty() || label.size() > 63 || label.front() == '-' || label.back() == '-') {
    return false;
  }
  for (const char c : label) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!is_letter && !(c >= '0' && c <= '9') && c != '-') return false;
  }
  return true;
}

}  // namespace

Certificate issue(const CertificatePlan& plan, const PrivateKey& signer) {
  const ErrorScope errors;
  const X509Ptr certificate(must_have(X509_new()));
  X509* made = certificate.get();
  must(X509_set_version(made, X509_VERSION_3));
  set_serial(made);
  set_names(made, plan);
  set_validity(made, plan.validity);
  must(X509_set_pubkey(made, plan.key));
  add_basic_constraints(made, plan.path_length);
  add_key_usage(made, plan.path_length.has_value());
  add_key_identifiers(made, plan);
  if (plan.member) add_member(made, *plan.member);
  must(X509_sign(made, signer.get(), EVP_sha256()));
  // Read again: what OpenSSL derived from the half-made certificate, it would keep for good.
  return *Certificate::from_der(Certificate::share(made).der());
}

bool is_ip_address(const std::string& text) {
  in6_addr address{};
  return ::inet_pton(AF_INET, text.c_str(), &address) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

bool is_host(const std::string& text) {
  if (text.empty() || text.size() > kHostMax || text.find('\0') != std::string::npos) return false;
  if (is_ip_address(text)) return true;
  std::string_view rest = text;
  for (;;) {
    const std::size_t dot = rest.find('.');
    if (!is_label(rest.substr(0, dot))) return false;
    if (dot == std::string_view::npos) break;
    rest.remove_prefix(dot + 1);
  }
  // What ends in a number is an address that somebody mistyped.
  const std::string_view last = std::string_view(text).substr(text.rfind('.') + 1);
  return last.find_first_not_of("0123456789") != std::string_view::npos;
}

}  // namespace shoal::identity
