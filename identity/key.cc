#include "identity/key.h"

#include <utility>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/pem.h>

#include "identity/openssl.h"
#include "identity/private_file.h"

namespace shoal::identity {
namespace {

constexpr char kCurve[] = "prime256v1";  // P-256
constexpr char kMakeOne[] =
    "make one with: openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256";

// Without it OpenSSL would ask the terminal.
int no_password(char*, int, int, void*) { return -1; }

std::string curve_of(EVP_PKEY* key) {
  char name[64] = {};
  std::size_t size = 0;
  if (EVP_PKEY_get_group_name(key, name, sizeof name, &size) != 1) return "";
  int is_explicit = 0;
  EVP_PKEY_get_int_param(key, OSSL_PKEY_PARAM_EC_DECODED_FROM_EXPLICIT_PARAMS, &is_explicit);
  return is_explicit != 0 ? "explicit parameters" : std::string(name, size);
}

std::string kind_of(EVP_PKEY* key) {
  const char* type = EVP_PKEY_get0_type_name(key);
  return (type == nullptr ? std::string("unknown") : std::string(type)) + " of " +
         std::to_string(EVP_PKEY_get_bits(key)) + " bits";
}

bool suits_a_given_authority(EVP_PKEY* key) {
  if (EVP_PKEY_is_a(key, "RSA") == 1) {
    const int bits = EVP_PKEY_get_bits(key);
    return bits >= 2048 && bits <= 4096;
  }
  const std::string curve = curve_of(key);
  return EVP_PKEY_is_a(key, "EC") == 1 && (curve == kCurve || curve == "secp384r1");
}

Result<std::shared_ptr<EVP_PKEY>> read_key(std::string_view pem) {
  const ErrorScope errors;
  if (pem.size() > kPrivateFileMax) {
    return Error{Code::kInvalidArgument, "the text is too long for a private key", "key", kMakeOne};
  }
  const BioPtr bio(must_have(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))));
  EVP_PKEY* key = PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr);
  if (key == nullptr) {
    const bool locked = pem.find("ENCRYPTED") != std::string_view::npos;
    return Error{Code::kInvalidArgument,
                 locked ? "the private key has a password" : "holds no private key in PEM", "key",
                 locked ? "store it without one, with mode 0600: openssl pkey -in KEY" : kMakeOne};
  }
  return std::shared_ptr<EVP_PKEY>(key, EVP_PKEY_free);
}

}  // namespace

PrivateKey PrivateKey::make() { return PrivateKey({must_have(EVP_EC_gen(kCurve)), EVP_PKEY_free}); }

Result<PrivateKey> PrivateKey::parse(std::string_view pem) {
  auto key = read_key(pem);
  if (!key) return key.error();
  if (const Status kind = check_public_key(key->get()); !kind) return kind.error();
  return PrivateKey(std::move(*key));
}

Result<PrivateKey> PrivateKey::parse_given(std::string_view pem) {
  const ErrorScope errors;
  auto key = read_key(pem);
  if (!key) return key.error();
  if (suits_a_given_authority(key->get())) return PrivateKey(std::move(*key));
  return Error{Code::kIncompatible,
               "the CA's key is " + kind_of(key->get()) +
                   "; P-256, P-384 and RSA of 2048 to 4096 bits are accepted",
               "key", kMakeOne};
}

Result<PrivateKey> PrivateKey::load(const std::string& path) {
  Result<std::string> pem = read_private_file(path);
  if (!pem) return pem.error();
  Result<PrivateKey> key = parse(*pem);
  OPENSSL_cleanse(pem->data(), pem->size());
  if (key) return key;
  Error error = key.error();
  error.field = path;
  return error;
}

Result<PrivateKey> PrivateKey::load_or_make(const std::string& path) {
  Result<PrivateKey> loaded = load(path);
  if (loaded || loaded.error().code != Code::kNotFound) return loaded;
  PrivateKey made = make();
  if (Status saved = made.save(path); !saved.ok()) return saved.error();
  return made;
}

Status PrivateKey::save(const std::string& path) const {
  std::string text = pem();
  Status written = write_private_file(path, text);
  OPENSSL_cleanse(text.data(), text.size());
  return written;
}

std::string PrivateKey::pem() const {
  const BioPtr bio(must_have(BIO_new(BIO_s_secmem())));
  must(PEM_write_bio_PKCS8PrivateKey(bio.get(), get(), nullptr, nullptr, 0, nullptr, nullptr));
  char* text = nullptr;
  const auto size = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, static_cast<std::size_t>(size));
}

Hash256 PrivateKey::public_fingerprint() const { return fingerprint_of_key(get()); }

std::string PrivateKey::sign(std::string_view bytes) const {
  const DigestContextPtr context(must_have(EVP_MD_CTX_new()));
  must(EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, get()));
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  std::size_t size = 0;
  must(EVP_DigestSign(context.get(), nullptr, &size, data, bytes.size()));
  std::string signature(size, '\0');
  auto* out = reinterpret_cast<unsigned char*>(signature.data());
  must(EVP_DigestSign(context.get(), out, &size, data, bytes.size()));
  signature.resize(size);
  return signature;
}

Status check_public_key(EVP_PKEY* key) {
  const ErrorScope errors;
  if (EVP_PKEY_is_a(key, "EC") == 1 && curve_of(key) == kCurve) return {};
  return Error{Code::kIncompatible, "the key is " + kind_of(key) + ", not ECDSA over P-256", "key",
               kMakeOne};
}

Hash256 fingerprint_of_key(EVP_PKEY* key) {
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key, &der);
  must(size);
  const Owned<unsigned char, [](unsigned char* bytes) { OPENSSL_free(bytes); }> owner(der);
  return sha256({reinterpret_cast<const char*>(der), static_cast<std::size_t>(size)});
}

bool has_signed(EVP_PKEY* key, std::string_view bytes, std::string_view signature) {
  const ErrorScope errors;
  if (signature.empty() || signature.size() > kSignatureMax) return false;
  const DigestContextPtr context(must_have(EVP_MD_CTX_new()));
  return EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, key) == 1 &&
         EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char*>(signature.data()),
                          signature.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                          bytes.size()) == 1;
}

}  // namespace shoal::identity
