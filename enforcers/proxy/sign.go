package proxy

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/jwt"
)

// awsCredential is what `aws configure export-credentials --format process` prints.
type awsCredential struct {
	AccessKeyID     string `json:"AccessKeyId"`
	SecretAccessKey string
	SessionToken    string
}

// signAWS signs the request by AWS Signature Version 4 for Bedrock.
func signAWS(ctx context.Context, out *outgoing, credential, region string, now time.Time) error {
	var c awsCredential
	if json.Unmarshal([]byte(credential), &c) != nil || c.AccessKeyID == "" || c.SecretAccessKey == "" {
		return errors.New("is not what aws configure export-credentials prints: AccessKeyId, SecretAccessKey and maybe SessionToken, in JSON")
	}
	out.secrets = append(out.secrets, c.SecretAccessKey)
	if c.SessionToken != "" {
		out.secrets = append(out.secrets, c.SessionToken)
	}
	signed, err := standard(out)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(out.Body)
	keys := aws.Credentials{AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey, SessionToken: c.SessionToken}
	if err := v4.NewSigner().SignHTTP(ctx, keys, signed, hex.EncodeToString(sum[:]), "bedrock", region, now); err != nil {
		return errors.New("the request can't be signed") // the signer's own error may quote the request
	}
	// Of the query, what was signed goes out, in the form that was.
	out.Target = signed.URL.RequestURI()
	for _, name := range []string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token"} { // the signer's
		if value := signed.Header.Get(name); value != "" {
			out.Header = out.Header.Set(name, value)
		}
	}
	return nil
}

// standard is the request as net/http has it, without its body.
func standard(out *outgoing) (*http.Request, error) {
	at, err := url.ParseRequestURI(out.Target) // to which a "#" is part of the query, and is sent
	if err != nil {
		return nil, errors.New("the request can't be signed")
	}
	at.Scheme, at.Host = out.Origin.Scheme, out.Origin.Host
	return &http.Request{Method: out.Method, URL: at, Host: at.Host, Header: out.Header.Standard(), ContentLength: int64(len(out.Body))}, nil
}

// oauth turns a service account's key into access tokens, and keeps one until
// it expires or the key changes.
type oauth struct {
	client *http.Client

	mu     sync.Mutex
	key    string
	source oauth2.TokenSource
}

func newOAuth(trusts *tls.Config) *oauth {
	return &oauth{client: &http.Client{
		Transport: &http.Transport{TLSClientConfig: trusts.Clone(), DisableKeepAlives: true}, Timeout: 30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// serviceAccount is a key file as Google Cloud hands it out.
type serviceAccount struct {
	Email    string `json:"client_email"`
	Key      string `json:"private_key"`
	KeyID    string `json:"private_key_id"`
	TokenURI string `json:"token_uri"`
}

// authorize puts an access token in.
func (o *oauth) authorize(out *outgoing, key string) error {
	o.mu.Lock()
	defer o.mu.Unlock() // one asks for a token, the others wait for it
	if o.source == nil || o.key != key {
		var a serviceAccount
		if json.Unmarshal([]byte(key), &a) != nil || a.Email == "" || a.Key == "" || a.TokenURI == "" {
			return errors.New("is not the key file of a service account")
		}
		config := jwt.Config{Email: a.Email, PrivateKey: []byte(a.Key), PrivateKeyID: a.KeyID, TokenURL: a.TokenURI, Scopes: []string{"https://www.googleapis.com/auth/cloud-platform"}}
		// Not the request's context: the source outlives it.
		o.source = config.TokenSource(context.WithValue(context.Background(), oauth2.HTTPClient, o.client))
		o.key = key
	}
	token, err := o.source.Token()
	if err != nil {
		var refused *oauth2.RetrieveError
		if errors.As(err, &refused) && refused.Response != nil {
			return errors.New("no access token: the token server answers " + refused.Response.Status)
		}
		return errors.New("no access token: the token server can't be asked")
	}
	out.secrets = append(out.secrets, token.AccessToken)
	out.Header = out.Header.Set("Authorization", "Bearer "+token.AccessToken)
	return nil
}
