#include "identity/request.h"

#include <openssl/crypto.h>
#include <openssl/pem.h>

#include "identity/openssl.h"

namespace shoal::identity {
namespace {

Error refusal(const char* what) {
  return {Code::kInvalidArgument, what, "csr",
          "make a new request with the key that the certificate is for"};
}

int no_password(char*, int, int, void*) { return -1; }

Hash256 fingerprint_of(X509_REQ* request) {
  unsigned char* bytes = nullptr;
  const int size = i2d_X509_REQ(request, &bytes);
  must(size);
  const Owned<unsigned char, [](unsigned char* each) { OPENSSL_free(each); }> owner(bytes);
  return sha256({reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)});
}

}  // namespace

std::string make_request(const PrivateKey& key) {
  const RequestPtr request(must_have(X509_REQ_new()));
  must(X509_REQ_set_version(request.get(), X509_REQ_VERSION_1));
  must(X509_REQ_set_pubkey(request.get(), key.get()));
  must(X509_REQ_sign(request.get(), key.get(), EVP_sha256()));
  const BioPtr bio(must_have(BIO_new(BIO_s_mem())));
  must(PEM_write_bio_X509_REQ(bio.get(), request.get()));
  char* text = nullptr;
  const auto size = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, static_cast<std::size_t>(size));
}

Result<SigningRequest> SigningRequest::parse(std::string_view pem) {
  const ErrorScope errors;
  if (pem.size() > kRequestMax) return refusal("the text is too long for a signing request");
  const BioPtr bio(must_have(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))));
  const RequestPtr request(PEM_read_bio_X509_REQ(bio.get(), nullptr, no_password, nullptr));
  if (!request) return refusal("holds no signing request in PEM");
  EVP_PKEY* key = X509_REQ_get0_pubkey(request.get());
  if (key == nullptr) return refusal("the key of the signing request cannot be used");
  if (const Status kind = check_public_key(key); !kind) {
    Error error = kind.error();
    error.field = "csr";
    return error;
  }
  if (X509_REQ_verify(request.get(), key) != 1) {
    return refusal("the signature of the signing request is not its key's");
  }
  must(EVP_PKEY_up_ref(key));
  return SigningRequest({key, EVP_PKEY_free}, fingerprint_of(request.get()));
}

}  // namespace shoal::identity
